#include "harness/store/claims.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"

namespace turnbench {
namespace {

// Only stores that a run has written have this table.
constexpr const char* kClaimSchema = R"(
CREATE TABLE IF NOT EXISTS claim (
  unit TEXT PRIMARY KEY, owner TEXT NOT NULL, expires INTEGER NOT NULL) WITHOUT ROWID;
)";

/// Milliseconds since the epoch.
std::int64_t wall_clock() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string host() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return replace_all(name.data(), " ", "_");
}

/// The start of a process in clock ticks since boot; empty if there is no such process.
std::string start_of_process(const std::string& pid) {
  std::string stat;
  try {
    stat = read_file("/proc/" + pid + "/stat");
  } catch (const Error&) {
    return "";
  }
  // Field 22; the name of the program, in parentheses, may contain spaces.
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

/// Ends an execution of a statement, so that it can be executed again.
class Execution {
 public:
  explicit Execution(Statement& statement) : statement_(statement) {}
  ~Execution() { statement_.reset(); }
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  Statement* operator->() const { return &statement_; }
  Statement& operator*() const { return statement_; }

 private:
  Statement& statement_;
};

}  // namespace

std::string this_process() {
  const std::string pid = std::to_string(getpid());
  return host() + " " + pid + " " + start_of_process(pid);
}

bool has_ended(const std::string& process) {
  const std::vector<std::string> parts = split(process, " ");
  return parts.size() == 3 && parts[0] == host() && start_of_process(parts[1]) != parts[2];
}

Claims::Statements::Statements(const Database& db)
    : other(db.prepare("SELECT owner, expires FROM claim WHERE unit = ? AND owner <> ?")),
      claim(db.prepare("INSERT OR REPLACE INTO claim VALUES (?,?,?)")),
      release(db.prepare("DELETE FROM claim WHERE unit = ? AND owner = ?")),
      results(db.prepare("SELECT environment, count(*) FROM record WHERE cell = ? AND dialogue = ? "
                         "GROUP BY environment")) {}

Claims::Claims(const std::filesystem::path& store, std::chrono::milliseconds lease,
               std::string owner)
    : db_(store, Database::Mode::kReadWrite), lease_(lease), owner_(std::move(owner)) {
  db_.prepare_for_writing();
  Transaction transaction(db_);
  db_.execute(kClaimSchema);
  (db_.prepare("DELETE FROM claim WHERE expires < ?") << wall_clock()).run();
  std::vector<std::string> ended;
  Statement owners = db_.prepare("SELECT DISTINCT owner FROM claim");
  while (owners.next()) {
    if (has_ended(owners.text(0))) ended.push_back(owners.text(0));
  }
  for (const std::string& process : ended)
    (db_.prepare("DELETE FROM claim WHERE owner = ?") << process).run();
  transaction.commit();
  statements_.emplace(db_);
}

Claims::~Claims() {
  try {
    (db_.prepare("DELETE FROM claim WHERE owner = ?") << owner_).run();
  } catch (const Error&) {  // the claims expire
  }
}

std::int64_t Claims::expiry() const {
  return wall_clock() + lease_.count();
}

bool Claims::claim(const std::string& unit) {
  std::lock_guard lock(mutex_);
  Transaction transaction(db_);
  {
    const Execution other(statements_->other);
    *other << unit << owner_;
    if (other->next() && other->integer(1) >= wall_clock() && !has_ended(other->text(0)))
      return false;
  }
  const Execution claim(statements_->claim);
  (*claim << unit << owner_ << expiry()).run();
  transaction.commit();
  return true;
}

void Claims::release(const std::string& unit) {
  std::lock_guard lock(mutex_);
  const Execution release(statements_->release);
  (*release << unit << owner_).run();
}

void Claims::renew() {
  std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - renewed_ < lease_ / 3) return;
  renewed_ = now;
  (db_.prepare("UPDATE claim SET expires = ? WHERE owner = ?") << expiry() << owner_).run();
}

const SourceHashes& Claims::sources_in(const std::string& environment) {
  const auto [known, is_new] = known_sources_.try_emplace(environment);
  if (!is_new) return known->second;
  Statement s = db_.prepare("SELECT json FROM environment WHERE id = ?");
  s << environment;
  if (s.next()) known->second = sources_of(s.view(0));
  return known->second;
}

bool Claims::has_results(const std::string& cell, const std::string& method,
                         const std::string& dialogue, std::size_t turns) {
  std::lock_guard lock(mutex_);
  const Execution results(statements_->results);
  *results << cell << dialogue;
  std::size_t stored = 0;
  while (results->next()) {
    if (!changed_parts(method, sources_in(results->text(0)), now_).empty()) return false;
    stored += static_cast<std::size_t>(results->integer(1));
  }
  return stored >= turns;
}

}  // namespace turnbench
