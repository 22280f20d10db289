// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "testing/world_state.hpp"

#include <conch/testing.hpp>

namespace conch::testing {

std::string_view to_string(finding kind) noexcept {
  switch (kind) {
    case finding::failed: return "failed";
    case finding::late_write: return "late write";
    case finding::deadlock: return "deadlock";
    case finding::leak: return "leak";
  }
  return "unknown";
}

// ------------------------------------------------------------------------------------------------------------ resource

resource::resource(world_state& w, std::string lock, fencing f) : world_{w}, lock_{std::move(lock)}, fencing_{f} {}

std::int64_t resource::read(std::int64_t fence) {
  world_.before_access();
  greatest_ = std::max(greatest_, fence);
  world_.accessed(lock_, "reads", fence, std::to_string(value_));
  return value_;
}

bool resource::write(std::int64_t fence, std::int64_t value) {
  world_.before_access();
  if (fencing_ == fencing::on && fence < greatest_) {
    world_.accessed(lock_, "writes", fence, "refused");
    return false;
  }
  world_.accessed(lock_, "writes", fence, std::to_string(value));
  if (fencing_ == fencing::off) world_.judge_write(lock_, fence, greatest_);
  greatest_ = std::max(greatest_, fence);
  value_ = value;
  return true;
}

// --------------------------------------------------------------------------------------------------------------- world

world::world(std::uint64_t seed, world_settings const& settings)
    : state_{std::make_unique<world_state>(seed, settings)} {}

world::~world() = default;

std::uint64_t world::seed() const noexcept { return state_->seed(); }

asio::any_io_executor world::executor(std::string_view process) {
  return state_->all().named(process).context.get_executor();
}

std::string world::url(std::string_view server) { return "simulated://" + std::string{server}; }

resource& world::resource(std::string_view lock, fencing f) { return state_->guarded_by(lock, f); }

void world::run() { state_->run(); }

void world::expect(bool ok, std::string_view words) {
  if (ok) return;
  note("expects, in vain: " + std::string{words});
  throw violation{finding::failed, "failed with seed " + std::to_string(seed()) + ": " + std::string{words}};
}

void world::at_end(std::function<void()> check) { state_->at_end(std::move(check)); }

void world::note(std::string_view words) { state_->note(words); }

std::uint64_t world::random(std::uint64_t n) { return state_->below(n); }

duration world::now() const noexcept { return duration{state_->now()}; }

void world::pause(duration length) { state_->stand_still(length); }

void world::pause(std::string_view process, duration length) {
  state_->stand_still(state_->all().named(process), length);
}

void world::cut(client const& c) { state_->cut(c.id()); }

bool world::lose(hold const& h) { return h.fence() > 0 && state_->lose(h.fence()); }

void world::restart(std::string_view server, data d) { state_->restart(server, d == data::kept); }

std::string world::trace() const { return state_->lines().text(); }

std::function<void(std::exception_ptr)> world::begin_body(std::string_view process) {
  return state_->begin_body(process);
}

}  // namespace conch::testing
