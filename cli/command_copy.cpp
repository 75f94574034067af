#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "common/text.h"
#include "harness/store/store_copy.h"

namespace turnbench {

void add_copy_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string from, to;
    CopyOptions copy;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("copy", "Copy a store, also while a run writes it");
  command->footer(
      "Example: turnbench copy /tmp/shard.db shared/shard.db\n"
      "TO is replaced in one step when the copy is complete and on disk: jobs of a cluster keep\n"
      "their stores on local disks, and copy them to a shared folder.\n"
      "If the name of TO ends in .zst, the copy is compressed.  Commands that read stores accept\n"
      "it; `turnbench copy results.db.zst results.db` decompresses it.");
  command->add_option("from", o->from, "store")->required();
  command->add_option("to", o->to, "file to write; an old store is replaced")->required();
  command->add_flag(
      "--without-texts", o->copy.without_texts,
      "leave out instructions, contexts and questions, for example those of a dataset "
      "whose license forbids copies; references and answers stay");
  command->add_flag("--without-paths", o->copy.without_paths,
                    "leave out the folders of manifests, models and files of data");
  command->callback([o, &common] {
    const std::size_t records = copy_store(o->from, o->to, o->copy);
    if (common.json) {
      fmt::print("{}\n", dump(OrderedJson{{"out", o->to}, {"records", records}}));
    } else {
      fmt::print("{}: {} records\n", printable(o->to), records);
    }
  });
}

}  // namespace turnbench
