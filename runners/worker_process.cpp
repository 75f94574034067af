#include "runners/worker_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <iterator>
#include <utility>

#include "common/error.h"
#include "common/process_memory.h"
#include "common/text.h"
#include "common/thread_pool.h"
#include "runners/result_bytes.h"
#include "runners/worker.h"

namespace turnbench {
namespace {

constexpr std::size_t kMostPrinted = 2000;  // bytes kept of a process's stderr

/// The requests of a worker process to its parent.
class Requests {
 public:
  Requests(const Plan& plan, Channel& channel)
      : splits_(plan.experiment.manifest.isolated), channel_(channel) {
    for (const Unit& unit : plan.units) units_[unit.key] = &unit;
    for (const ProbeUnit& unit : plan.probe_units) probe_units_[unit.key] = &unit;
  }

  /// Requests the next unit, and returns whether it has arrived.
  bool request_unit() {
    if (!parts_.empty() || arrived_) return true;
    if (!std::exchange(requested_, true)) send({{"ask", "unit"}});
    if (!channel_.read_available()) throw ParentGone();
    arrived_ = channel_.take();
    return arrived_.has_value();
  }

  /// Waits for the next unit; nullopt if none is left now.
  std::optional<Unit> next_unit() {
    if (parts_.empty()) {
      const Json answer = request_unit() ? *std::move(arrived_) : receive();
      arrived_.reset();
      requested_ = false;
      std::optional<Unit> unit = named_by(answer, units_);
      if (!unit || !splits_) return unit;
      std::vector<Unit> parts = unit->split();
      std::move(parts.begin(), parts.end(), std::back_inserter(parts_));
    }
    Unit part = std::move(parts_.front());
    parts_.pop_front();
    return part;
  }

  std::optional<ProbeUnit> next_probes() {
    return named_by(answer_to({{"ask", "probes"}}), probe_units_);
  }

  Json answer_to(const Json& request) {
    if (std::exchange(requested_, false) && !arrived_) receive();
    arrived_.reset();  // a unit that was requested before the run ended
    send(request);
    return receive();
  }

  void send(const Json& message) {
    if (!channel_.send(message)) throw ParentGone();
  }

  struct ParentGone {};

 private:
  Json receive() {
    std::optional<Json> message = channel_.receive();
    if (!message) throw ParentGone();
    return std::move(*message);
  }

  /// A unit with the cells that the parent names, or nullopt if it names none.
  template <typename AnyUnit>
  static std::optional<AnyUnit> named_by(const Json& answer,
                                         const std::map<std::string, const AnyUnit*>& units) {
    if (!answer.contains("key")) return std::nullopt;
    AnyUnit unit = *units.at(answer.at("key").get<std::string>());
    const auto cells = answer.at("cells").get<std::vector<std::string>>();
    std::erase_if(unit.cells, [&](const auto& cell) {
      return std::find(cells.begin(), cells.end(), cell.key) == cells.end();
    });
    return unit;
  }

  const bool splits_;
  Channel& channel_;
  std::map<std::string, const Unit*> units_;
  std::map<std::string, const ProbeUnit*> probe_units_;
  std::deque<Unit> parts_;       // of a unit whose cells run one by one
  bool requested_ = false;       // a unit, which has not been taken
  std::optional<Json> arrived_;  // the answer to this request
};

void work(const Plan& plan, std::size_t model_index, const Model* shared, const RunOptions& options,
          int threads, const SharedStop& stop, Channel& channel) {
  // Memory of the parent, and files, are shared.
  const std::size_t inherited = resident_bytes() - resident_file_bytes();
  Requests requests(plan, channel);
  const ResolvedModel& resolved = plan.experiment.models[model_index];
  std::vector<std::unique_ptr<Backend>> loaders;
  std::optional<Model> own;
  if (shared == nullptr) {  // a device belongs to the process that opens it
    loaders = make_backends(options.devices, threads);
    own.emplace(resolved.checkpoint, pointers_to(loaders), resolved.dtype, resolved.entry.math);
    shared = &*own;
  }
  Worker worker(plan, model_index, *shared, options, threads);
  const WorkSource source{{[&] { return stop.get() ? std::nullopt : requests.next_unit(); },
                           [&] { return stop.get() || requests.request_unit(); }},
                          [&] { return stop.get() ? std::nullopt : requests.next_probes(); }};
  const Deliver deliver = [&](const std::string& unit, const UnitResult& result,
                              const std::vector<ScoreValue>& scores, bool whole) {
    requests.send(
        {{"done", unit}, {"whole", whole}, {"result", Json::binary(to_bytes({result, scores}))}});
  };
  for (;;) {
    const auto start = Clock::now();
    worker.run(source, deliver, [&] { return stop.get(); });
    const std::size_t peak = peak_resident_bytes(), shared = inherited + resident_file_bytes();
    const Json answer = requests.answer_to(
        {{"idle", seconds_since(start)}, {"own_bytes", peak > shared ? peak - shared : 0}});
    if (answer.contains("quit")) return;
  }
}

}  // namespace

int run_worker(const Plan& plan, std::size_t model_index, const Model* model,
               const RunOptions& options, int threads, const SharedStop& stop, Channel& channel) {
  const auto fail = [&](ErrorKind kind, const std::string& what) {
    channel.send({{"error", what}, {"kind", static_cast<int>(kind)}});
    return 1;
  };
  try {
    work(plan, model_index, model, options, threads, stop, channel);
  } catch (const Requests::ParentGone&) {
    return 0;
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    return fail(error.kind(), error.what());
  }
  return 0;
}

SharedStop::SharedStop() {
  void* memory =
      mmap(nullptr, sizeof(*time_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw memory_error("the system has no more memory");
  time_ = new (memory) std::atomic<Clock::rep>(0);
  static_assert(std::atomic<Clock::rep>::is_always_lock_free);
}

SharedStop::~SharedStop() {
  munmap(time_, sizeof(*time_));
}

void SharedStop::set(Clock::time_point time) {
  *time_ = time.time_since_epoch().count();
}

std::optional<Clock::time_point> SharedStop::get() const {
  const Clock::rep time = *time_;
  return time == 0 ? std::nullopt : std::optional(Clock::time_point(Clock::duration(time)));
}

WorkerProcess::WorkerProcess(const std::function<int(Channel&)>& work) {
  auto [own, others] = Channel::connected();
  std::array<int, 2> errors{};
  if (pipe2(errors.data(), O_CLOEXEC) != 0)
    throw runtime_error("no connection to a worker process: {}", std::strerror(errno));
  std::fflush(nullptr);  // else both processes would print what is buffered
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    close(errors[0]);
    close(errors[1]);
    throw runtime_error("no worker process can be started: {}", std::strerror(errno));
  }
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    // The parent receives the signals of a terminal, and tells its workers to stop.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) std::signal(signal, SIG_IGN);
    dup2(errors[1], STDERR_FILENO);
    own.close();
    close(errors[0]);
    close(errors[1]);
    _exit(work(others));  // destructors belong to the parent
  }
  close(errors[1]);
  errors_ = errors[0];
  fcntl(errors_, F_SETFL, O_NONBLOCK);
  channel_ = std::move(own);
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) {
    kill();
    wait();
  }
  close(errors_);
}

void WorkerProcess::read_errors() {
  std::array<char, 4096> block;
  for (ssize_t got = 0; (got = read(errors_, block.data(), block.size())) > 0;) {
    const std::string_view text(block.data(), static_cast<std::size_t>(got));
    std::fwrite(text.data(), 1, text.size(), stderr);
    printed_ += text;
    if (printed_.size() > kMostPrinted) printed_.erase(0, printed_.size() - kMostPrinted);
  }
}

void WorkerProcess::kill() {
  ::kill(pid_, SIGKILL);
}

std::string WorkerProcess::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  read_errors();
  std::string out =
      !killed_for.empty() ? killed_for
      : WIFSIGNALED(status)
          ? fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
          : fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const std::string printed = trim(replace_all(trim(printed_), "\n", " | "));
  if (!printed.empty()) out += ": " + printable(printed);
  return out;
}

}  // namespace turnbench
