// Orders that come through a client's engine, as the server carries them out.
#include "redis/codec.hpp"
#include "sim/sim_client.hpp"
#include "sim/words.hpp"
#include "sim/world.hpp"

#include <algorithm>

namespace conch::sim {

bool world::is_order(std::string_view script) { return script == "force" || script == "inspect" || script == "permit_limit"; }

/// Before it is carried out: whom it will concern. A replica only says what it knows.
world::order_in_hand world::take_order(std::string_view script, std::span<std::string_view const> argv, bool at_master) {
  order_in_hand o{std::string{script}, 0, 0, {}, at_master};
  while (o.name < plan_.names && "conch:{" + redis::escape_name(name_of(o.name)) + "}" != argv[3]) ++o.name;
  if (script == "inspect" || o.name == plan_.names || !at_master) return o;
  o.number = number(argv[8]);
  if (script == "force") {
    o.owners = observer_->owners_of(o.name);
    if (o.number != 0) std::erase_if(o.owners, [&](auto const& owner) { return owner.second != o.number; });
    if (!o.owners.empty()) observer_->lock_tampered(o.name);
  }
  return o;
}

void world::order_carried_out(order_in_hand const& o, link const& by, value const& reply, std::vector<redis_model::pushed> const& pushes) {
  if (reply.is_error()) {
    if (reply.error_code() == "NOSCRIPT") return;
    if (o.at_master) observer_->refused();
    if (o.at_master && o.script == "permit_limit") observer_->limit_set(o.name, o.number, false);
    observer_->ordered(o.name);
    return;
  }
  std::vector<std::int64_t> numbers;
  for (value const& item : reply.items) numbers.push_back(item.integer);
  auto const& c = *clients_[static_cast<std::size_t>(by.client)];
  said_.push_back({c.id(), o.script, o.name, std::move(numbers)});
  if (said_.size() > 64) said_.pop_front();
  if (o.script == "inspect" || o.name == plan_.names || !o.at_master) return;
  std::vector<std::string> pushed;
  for (auto const& p : pushes) {
    if (!p.message.items.empty()) pushed.push_back(p.message.items.back().text);
  }
  observer_->ordered(o.name);
  if (o.script == "force") observer_->forced(o.name, o.owners, pushed);
  if (o.script == "permit_limit") observer_->limit_set(o.name, o.number, true);
}

bool world::was_said(std::string_view client, std::string_view script, int name, std::span<std::int64_t const> numbers) const {
  return std::any_of(said_.begin(), said_.end(), [&](saying const& s) {
    return s.client == client && s.script == script && s.name == name && std::equal(s.numbers.begin(), s.numbers.end(), numbers.begin(), numbers.end());
  });
}

// ------------------------------------------------------------------------------------------ a user who may not, a slow server

/// The user may not do what the protocol needs, for a while; its connection ends, as when its rights are changed.
void world::deny(fault_plan const& f, link_ptr const& l) {
  static std::vector<std::string> const what[] = {{"subscribe"}, {"publish"}, {"eval", "evalsha"}};
  auto const& commands = what[static_cast<std::size_t>(f.variant) % std::size(what)];
  for (std::string const& one : commands) server().deny(one);
  observer_->denied(now_ + f.length + millisecond);
  if (l != nullptr) close_server_end(l, true);
  after(f.length + millisecond, [this, &commands] {
    for (std::string const& one : commands) server().allow(one);
  });
}

void world::refuse_greetings(fault_plan const& f, link_ptr const& l) {
  static constexpr std::string_view errors[] = {
      "NOPERM this user has no permissions to run the 'hello' command",
      "WRONGPASS invalid username-password pair or user is disabled.",
      "LOADING Redis is loading the dataset in memory",
      "ERR max number of clients reached",
  };
  server().inject({"hello", std::string{errors[static_cast<std::size_t>(f.variant) % std::size(errors)]}, 0, redis_model::always, redis_model::where::client});
  observer_->denied(now_ + f.length + millisecond);
  if (l != nullptr) close_server_end(l, true);
  after(f.length + millisecond, [this] { server().clear_faults(); });
}

/// It answers everything, late.
void world::slow_down(fault_plan const& f) {
  slow_until_ = now_ + f.length;
  slow_by_ = f.length2;
}

}  // namespace conch::sim
