// LongBench in its published form: the archive data.zip.

#include <gtest/gtest.h>
#include <zip.h>

#include "common/file.h"
#include "common/zip.h"
#include "datasets/catalog.h"
#include "longbench_samples.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;
using test::message_of;

/// Writes an archive with the given texts as files.
void write_zip(const fs::path& path, const std::map<std::string, std::string>& members,
               zip_int32_t method = ZIP_CM_DEFAULT) {
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, text] : members) {
    zip_source_t* source = zip_source_buffer(archive, text.data(), text.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
    ASSERT_GE(index, 0);
    ASSERT_EQ(zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), method, 0), 0);
  }
  ASSERT_EQ(zip_close(archive), 0) << zip_strerror(archive);
}

std::string native_lines(const std::string& name, int count) {
  std::string out;
  for (const LongBenchRecord& r : test::make_records(find_longbench_task(name, "test"), count))
    out += test::to_native_line(name, r) + "\n";
  return out;
}

TEST(LongBenchZip, IsReadWithoutUnpacking) {
  const test::TemporaryDirectory directory;
  const fs::path zip = directory.path() / "data.zip";
  write_zip(zip, {{"data/qasper.jsonl", native_lines("qasper", 5)},
                  {"data/qasper_e.jsonl", native_lines("qasper_e", 3)}});
  const fs::path file = directory.write("plain/qasper.jsonl", native_lines("qasper", 5));
  for (const fs::path& source : {directory.path(), zip, zip / "data/qasper.jsonl"}) {
    const auto packed = load_dialogues("qasper", source, {});
    const auto plain = load_dialogues("qasper", file, {});
    ASSERT_EQ(packed.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(packed[i].id, plain[i].id);
      EXPECT_EQ(packed[i].turns[0].contexts.size(), plain[i].turns[0].contexts.size());
    }
  }
  EXPECT_EQ(load_dialogues("qasper_e", directory.path(), {}).size(), 3u);
  EXPECT_EQ(load_dialogues("mt-qasper", directory.path(), {.limit = 2}).size(), 2u);
  for (const fs::path& source : {directory.path(), zip}) {
    EXPECT_TRUE(has_file(find_dataset("qasper_e", "test"), source));
    EXPECT_FALSE(has_file(find_dataset("trec", "test"), source));
    EXPECT_EQ(message_of([&] { load_dialogues("trec", source, {}); }),
              source.string() +
                  ": found none of trec.jsonl, data/trec.jsonl, native/trec.jsonl, "
                  "recovered/trec.jsonl, expected one");
  }
  EXPECT_EQ(message_of([&] { load_dialogues("trec", zip / "data/trec.jsonl", {}); }),
            (zip / "data/trec.jsonl").string() +
                ": found no readable file in the archive (No such file), expected one");
}

TEST(Zip, HoldsFilesOfEverySet) {
  const test::TemporaryDirectory directory;
  const fs::path zip = directory.path() / "any name.zip";
  write_zip(zip, {{"longbench_write.jsonl", R"({"prompt": "Write.", "type": "x", "length": 9})"},
                  {"longmemeval_s.json", "[]"}});
  for (const fs::path& source : {directory.path(), zip}) {
    EXPECT_EQ(load_dialogues("longbench-write", source, {}).size(), 1u);
    EXPECT_EQ(
        message_of([&] { load_dialogues("longmemeval-s", source, {}); }),
        zip.string() + ": found a file, expected a directory: only lines are read from archives");
  }
}

TEST(LongBenchZip, UnpackedFilesComeFirst) {
  const test::TemporaryDirectory directory;
  write_zip(directory.path() / "data.zip", {{"data/qasper.jsonl", native_lines("qasper", 5)}});
  directory.write("data/qasper.jsonl", native_lines("qasper", 2));
  EXPECT_EQ(load_dialogues("qasper", directory.path(), {}).size(), 2u);
}

TEST(LongBenchZip, RefusalsNameTheArchiveTheFileAndTheLine) {
  const test::TemporaryDirectory directory;
  const fs::path zip = directory.path() / "data.zip", inside = zip / "data/qasper.jsonl";
  write_zip(zip, {{"data/qasper.jsonl", native_lines("qasper", 1) + "{\"input\": \"x\"}\n"}});
  EXPECT_EQ(message_of([&] { load_dialogues("qasper", zip, {}); }),
            inside.string() + ":2: /: found no key \"dataset\", expected one");
  directory.write("data.zip", "no archive");
  for (const fs::path& source : {directory.path(), zip}) {
    EXPECT_EQ(message_of([&] { load_dialogues("qasper", source, {}); }),
              zip.string() + ": found no zip archive (Not a zip archive), expected one");
  }
  EXPECT_FALSE(has_file(find_dataset("qasper", "test"), directory.path()));
}

TEST(LongBenchZip, DamageIsDetected) {
  const test::TemporaryDirectory directory;
  const fs::path zip = directory.path() / "data.zip";
  const std::string text = native_lines("qasper", 40);
  write_zip(zip, {{"data/qasper.jsonl", text}});
  const std::string good = read_file(zip);
  ASSERT_LT(good.size(), text.size()) << "packed";
  std::string read;
  for_each_line(zip / "data/qasper.jsonl",
                [&](std::string_view line, std::size_t) { read += std::string(line) + "\n"; });
  EXPECT_EQ(read, text);
  int refused = 0;
  for (std::size_t at = 60; at < good.size(); at += good.size() / 60) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x55);
    directory.write("data.zip", bad);
    refused += message_of([&] { load_dialogues("qasper", zip, {}); }).starts_with(zip.string());
  }
  EXPECT_GT(refused, 50);
  directory.write("data.zip", std::string_view(good).substr(0, good.size() / 2));
  EXPECT_TRUE(message_of([&] { load_dialogues("qasper", zip, {}); }).starts_with(zip.string()));
}

// A small archive must not cause unbounded memory use: lines have a maximum length, and compression
// methods with ratios of up to 100,000 are not supported.
TEST(LongBenchZip, ZipBombsAreRejected) {
  const test::TemporaryDirectory directory;
  const fs::path zip = directory.path() / "data.zip", inside = zip / "data/qasper.jsonl";
  const std::string good = native_lines("qasper", 1);
  write_zip(zip, {{"data/qasper.jsonl", good + std::string(66 << 20, ' ')}});
  EXPECT_LT(fs::file_size(zip), 100'000u);
  EXPECT_EQ(message_of([&] { load_dialogues("qasper", zip, {}); }),
            inside.string() + ":2: found a line of more than 64 MiB, expected shorter ones");
  if (zip_compression_method_supported(ZIP_CM_BZIP2, 1) == 0)
    GTEST_SKIP() << "a libzip of deflate alone";
  write_zip(zip, {{"data/qasper.jsonl", good + good}}, ZIP_CM_BZIP2);
  EXPECT_EQ(message_of([&] { load_dialogues("qasper", zip, {}); }),
            inside.string() + ": found compression method 12, expected a stored or deflated file");
}

}  // namespace
}  // namespace turnbench
