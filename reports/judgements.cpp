#include "reports/judgements.h"

#include <fmt/format.h>

#include "common/text.h"
#include "harness/experiment/manifest.h"

namespace turnbench {

std::string describe_unparsed(const Store& store, const std::string& experiment,
                              const ScoreChoice& choice) {
  if (!choice.metric.starts_with(kJudgePrefix)) return "";
  const std::string rubric = split(choice.metric, ":")[1];  // a dimension may follow
  std::vector<std::string> out;
  for (const Store::JudgementCounts& counts : store.judgement_counts(experiment)) {
    const std::string judge = name_of(counts.judge);
    if (counts.judge.rubric != rubric || counts.unparsed == 0) continue;
    if (!choice.postprocess.empty() && choice.postprocess != judge) continue;
    out.push_back(fmt::format("{} of {} judgements by {} could not be read", counts.unparsed,
                              counts.judgements - counts.failed, judge));
  }
  return join(out, "; ");
}

}  // namespace turnbench
