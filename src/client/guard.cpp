// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "backends/deployment.hpp"
#include "client/checked.hpp"
#include "client/core.hpp"

#include <conch/guard.hpp>
#include <conch/hold.hpp>

#include <iterator>
#include <utility>

// Guarded writes: what a hold knows of its grant, and the commands made from it.
namespace conch {

namespace {

constexpr std::size_t most_arguments = 7000;  // a script has room for 8000 values

using detail::refuse;

}  // namespace

std::string write_guard::grant() const {
  if (key.empty()) return {};
  std::string text = id + ' ' + std::to_string(fence / engine::hand_offs_per_grant);
  if (least_share != 0) text += ' ' + std::to_string(least_share);
  return text;
}

bool write_guard::owns(std::string_view value) const {
  if (key.empty() || least_share != 0) return false;
  return value.starts_with(grant() + ' ');
}

std::string_view guard_prelude() noexcept { return backends::guard_prelude().source; }

std::vector<std::string> guarded_command(write_guard const& guard, std::vector<std::string> command, script_by how) {
  if (!guard) refuse(errc::not_held, "a guarded command needs the guard of a hold");
  if (command.size() < 2) refuse(errc::invalid_config, "a guarded command has a name and a key");
  if (command.size() - 2 > most_arguments) refuse(errc::invalid_config, "a guarded command has at most 7000 arguments behind its key");
  backends::script_text const script = backends::guarded_script();
  bool const by_source = how == script_by::source;
  std::vector<std::string> words{
      by_source ? "EVAL" : "EVALSHA", std::string{by_source ? script.source : script.sha1}, "2", guard.key, std::move(command[1]), guard.grant(),
      std::move(command[0])};
  words.insert(words.end(), std::move_iterator{command.begin() + 2}, std::move_iterator{command.end()});
  return words;
}

std::vector<std::string> guarded_set(write_guard const& guard, std::string key, std::string value, std::vector<std::string> options, script_by how) {
  std::vector<std::string> command{"SET", std::move(key), std::move(value)};
  command.insert(command.end(), std::move_iterator{options.begin()}, std::move_iterator{options.end()});
  return guarded_command(guard, std::move(command), how);
}

write_guard detail::client_core::guard_of(hold_node const& n) {
  std::string name;
  write_guard g;
  if (!is_here()) return g;
  {
    std::lock_guard const guard{mutex_};
    if (gone_ || n.at != engine::acquisition::phase::holding || n.lock == nullptr) return g;
    g.id = id_ + '.' + engine::to_text(deployment_.backend->grant_of(*n.lock->place));
    g.fence = n.fence;
    name = n.lock->name;
    if (n.permit) g.least_share = n.permit.kind == engine::permit_kind::shared ? n.permit.weight : 1;
  }
  if (!backends::is_one_redis(settings_)) {
    refuse(
        errc::not_supported,
        "hold::guard(): no script can check the owner of a lock over several servers, in memory, in PostgreSQL or in ZooKeeper; send hold::fence() "
        "with the write");
  }
  g.key = backends::lock_key(settings_, name);
  return g;
}

write_guard hold::guard() const { return node_ ? node_->core->guard_of(*node_) : write_guard{}; }

}  // namespace conch
