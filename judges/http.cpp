#include "judges/http.h"

#include <curl/curl.h>

#include <algorithm>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr std::size_t kMaxBody = 4 << 20;  // far above real judgements
constexpr long kConnectMilliseconds = 10'000;

/// Runs once per process, in the first thread that calls it.
void start_curl() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) throw runtime_error("libcurl: {}", curl_easy_strerror(started));
}

struct UrlDelete {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return "";
  std::string out = text;
  curl_free(text);
  return out;
}

std::size_t append_body(char* data, std::size_t size, std::size_t count, void* body) {
  auto& out = *static_cast<std::string*>(body);
  if (out.size() + size * count > kMaxBody) return 0;  // ends the transfer
  out.append(data, size * count);
  return size * count;
}

}  // namespace

Url chat_url(const std::string& base) {
  const std::unique_ptr<CURLU, UrlDelete> url(curl_url());
  if (curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK ||
      printable(base) != base) {
    throw input_error("--url: found no URL, expected one such as http://127.0.0.1:8080/v1");
  }
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") {
    throw input_error("--url: found the scheme {}, expected http or https", printable(scheme));
  }
  if (!part_of(url.get(), CURLUPART_USER).empty() ||
      !part_of(url.get(), CURLUPART_PASSWORD).empty()) {
    throw input_error("--url: found credentials in it, expected them in a variable (--key-env)");
  }
  constexpr std::string_view kPath = "/chat/completions";
  std::string path = part_of(url.get(), CURLUPART_PATH);
  while (path.ends_with('/')) path.pop_back();
  if (!path.ends_with(kPath)) path += kPath;
  curl_url_set(url.get(), CURLUPART_PATH, path.c_str(), 0);
  curl_url_set(url.get(), CURLUPART_FRAGMENT, nullptr, 0);
  Url out;
  out.full = part_of(url.get(), CURLUPART_URL);
  curl_url_set(url.get(), CURLUPART_QUERY, nullptr, 0);
  out.display = part_of(url.get(), CURLUPART_URL);
  return out;
}

struct HttpClient::Handle {
  CURL* curl = nullptr;
  curl_slist* headers = nullptr;
  char message[CURL_ERROR_SIZE] = "";

  ~Handle() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
  }
};

HttpClient::HttpClient(Url url, std::string key, double timeout)
    : handle_(std::make_unique<Handle>()), key_(std::move(key)) {
  start_curl();
  handle_->curl = curl_easy_init();
  if (handle_->curl == nullptr) throw runtime_error("libcurl: cannot be used");
  const auto add_header = [&](const std::string& line) {
    curl_slist* longer = curl_slist_append(handle_->headers, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    handle_->headers = longer;
  };
  add_header("Content-Type: application/json");
  add_header("Accept: application/json");
  add_header("Expect:");  // avoids a round trip before a long prompt
  if (!key_.empty()) add_header("Authorization: Bearer " + key_);
  CURL* curl = handle_->curl;
  curl_easy_setopt(curl, CURLOPT_URL, url.full.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, handle_->headers);
  curl_easy_setopt(curl, CURLOPT_POST, 1L);
  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout * 1000));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append_body);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, handle_->message);
}

HttpClient::~HttpClient() = default;

HttpReply HttpClient::post(const std::string& json) {
  HttpReply out;
  CURL* curl = handle_->curl;
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, json.c_str());
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &out.body);
  handle_->message[0] = '\0';
  const CURLcode code = curl_easy_perform(curl);
  const auto without_key = [&](const std::string& text) {
    return key_.empty() ? text : replace_all(text, key_, "[key]");
  };
  out.body = without_key(out.body);
  if (code == CURLE_WRITE_ERROR) {
    out.error =
        fmt::format("found a reply of more than {} bytes, expected a shorter one", kMaxBody);
  } else if (code != CURLE_OK) {
    const std::string what =
        handle_->message[0] != '\0' ? handle_->message : curl_easy_strerror(code);
    out.error = without_key(printable(what));
    curl_off_t began = 0;  // start of the transfer in microseconds; 0: there was no connection
    curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &began);
    out.unreachable = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
                      code == CURLE_COULDNT_RESOLVE_PROXY ||
                      (code == CURLE_OPERATION_TIMEDOUT && began == 0);
  } else {
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &out.status);
  }
  curl_off_t wait = 0;
  if (curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK)
    out.retry_after = static_cast<double>(std::max<curl_off_t>(wait, 0));
  return out;
}

}  // namespace turnbench
