#include "native_checks.h"

#include <set>

#include "datasets/dialogue_io.h"

namespace turnbench::test {

std::filesystem::path shared_data() {
  return shared_longbench().parent_path();
}

std::vector<Dialogue> load_checked(const std::string& name, const std::filesystem::path& source,
                                   const BuildOptions& options) {
  const TemporaryDirectory directory;
  const std::filesystem::path scratch = directory.path() / "x.jsonl";
  const Dataset& dataset = find_dataset(name, "test");
  std::vector<Dialogue> out = load_dialogues(name, source, options);
  std::set<std::string> ids;
  for (const Dialogue& dialogue : out) {
    SCOPED_TRACE(dialogue.id);
    EXPECT_TRUE(ids.insert(dialogue.id).second);
    EXPECT_EQ(dialogue.dataset, dataset.name);
    EXPECT_EQ(dialogue.metric, dataset.metric);
    write_dialogues(scratch, std::vector{dialogue});
    EXPECT_EQ(to_json_line(read_dialogues(scratch).at(0)), to_json_line(dialogue));
  }
  return out;
}

}  // namespace turnbench::test
