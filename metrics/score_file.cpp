#include "metrics/score_file.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "metrics/postprocess.h"

namespace turnbench {
namespace {

struct Record {
  std::size_t line = 0;
  std::string prediction;
  std::vector<std::string> references;
  std::vector<std::string> classes;
  bool official_classes = false;  // `all_classes` exists, possibly as null
  std::optional<std::int64_t> length;
};

/// The value of the first of `keys` that exists in the record.
JsonView first_of(const JsonView& record, const std::vector<std::string_view>& keys) {
  for (std::string_view key : keys) {
    if (record.has(std::string(key))) return record.at(std::string(key));
  }
  for (std::string_view key : keys) {
    if (record.json().contains(key)) record.at(std::string(key)).fail("a value");
  }
  record.fail("one of the keys " + join(keys, ", "));
}

/// Appends a string, a number, or a list of them, which may be nested.
void add_references(const JsonView& value, std::vector<std::string>& out, int lists = 0) {
  if (value.is_string()) {
    out.push_back(value.as_string());
  } else if (value.is_number()) {
    out.push_back(value.json().dump());
  } else if (value.is_array() && lists < 2) {
    for (const JsonView& item : value.items()) add_references(item, out, lists + 1);
  } else {
    value.fail("a string, a number or a list of them");
  }
}

Record parse_record(std::string_view text, std::size_t line, const std::string& source) {
  const Json json = parse_json(text, source);
  const JsonView view(json, source);
  if (!view.is_object()) view.fail("an object");
  Record record;
  record.line = line;
  record.prediction = first_of(view, {"prediction", "pred"}).as_string();
  const JsonView references = first_of(view, {"references", "answers", "ground_truth", "label"});
  add_references(references, record.references);
  if (record.references.empty()) references.fail("at least one reference");
  record.official_classes = json.contains("all_classes");
  const std::string classes = record.official_classes ? "all_classes" : "classes";
  if (view.has(classes)) record.classes = view.at(classes).as_strings();
  if (view.has("length")) record.length = view.at("length").as_integer();
  return record;
}

std::string line_source(const std::filesystem::path& path, std::size_t line) {
  return fmt::format("{}: line {}", path.string(), line);
}

std::vector<Record> read_records(const std::filesystem::path& path) {
  std::vector<Record> records;
  for_each_line(path, [&](std::string_view text, std::size_t line) {
    if (trim(text).empty()) return;
    records.push_back(parse_record(text, line, line_source(path, line)));
  });
  if (records.empty()) {
    throw input_error("{}: found no line, expected predictions", path.string());
  }
  if (records.back().official_classes) {
    for (Record& record : records) {
      if (record.official_classes) record.classes = records.back().classes;
    }
  }
  return records;
}

std::vector<LengthBucket> by_length(const std::filesystem::path& path,
                                    const std::vector<Record>& records,
                                    std::span<const double> scores) {
  std::vector<std::int64_t> lengths;
  for (const Record& record : records) {
    if (!record.length) {
      throw input_error("{}: found no length, expected one, as LongBench-E scores by it",
                        line_source(path, record.line));
    }
    lengths.push_back(*record.length);
  }
  const std::array<LengthBucket, 3> buckets = longbench_e_means(scores, lengths);
  return {buckets.begin(), buckets.end()};
}

}  // namespace

FileScores score_file(const std::filesystem::path& path, const ScoreRequest& request) {
  FileScores out;
  out.metric = request.metric;
  out.dataset = request.dataset;
  out.postprocess = "none";
  if (!request.dataset.empty()) {
    const LongBenchScoring& scoring = find_longbench_scoring(request.dataset, "--dataset");
    if (out.metric.empty()) out.metric = scoring.metric;
    out.postprocess = scoring.postprocess;
  }
  if (out.metric.empty()) throw input_error("--metric: found none, expected a metric's name");
  const Metric& metric = find_metric(out.metric, "--metric");
  const Postprocess& postprocess = find_postprocess(out.postprocess, "--dataset");

  const std::vector<Record> records = read_records(path);
  std::vector<double> scores;
  for (const Record& record : records) {
    const std::string answer = postprocess.apply(record.prediction);
    const ScoringInput scored{answer, record.references, record.classes, request.segmenter};
    try {
      scores.push_back(metric.score(scored));
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("{}: {}", line_source(path, record.line), error.what()));
    }
    out.lines.push_back(
        {record.line, scores.back(), metric.remark ? metric.remark(scored) : std::string_view()});
  }
  out.mean = longbench_mean(scores);
  if (out.dataset.ends_with("_e")) out.by_length = by_length(path, records, scores);
  return out;
}

std::string to_text(const FileScores& scores) {
  std::string out;
  for (const LineScore& line : scores.lines) {
    out += fmt::format("{}\t{}{}{}\n", line.line, line.score, line.remark.empty() ? "" : "\t",
                       line.remark);
  }
  for (const LengthBucket& bucket : scores.by_length) {
    out += fmt::format("{}\t{:.2f}\tn={}\n", bucket.name, bucket.mean, bucket.count);
  }
  out += fmt::format("{}\t{:.2f}\tn={}\n", scores.metric, scores.mean, scores.lines.size());
  return out;
}

OrderedJson to_json(const FileScores& scores) {
  OrderedJson out;
  out["metric"] = scores.metric;
  if (!scores.dataset.empty()) out["dataset"] = scores.dataset;
  out["postprocess"] = scores.postprocess;
  out["n"] = scores.lines.size();
  out["mean"] = scores.mean;
  for (const LengthBucket& bucket : scores.by_length) {
    OrderedJson& entry = out["by_length"][std::string(bucket.name)];
    entry["n"] = bucket.count;
    entry["mean"] = std::isnan(bucket.mean) ? OrderedJson() : OrderedJson(bucket.mean);
  }
  out["scores"] = OrderedJson::array();
  for (const LineScore& line : scores.lines) {
    OrderedJson entry = {{"line", line.line}, {"score", line.score}};
    if (!line.remark.empty()) entry["remark"] = line.remark;
    out["scores"].push_back(std::move(entry));
  }
  return out;
}

}  // namespace turnbench
