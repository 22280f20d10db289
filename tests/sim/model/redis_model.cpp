#include "sim/model/redis_model.hpp"

#include "sim/model/redis_model_impl.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace conch::sim {

namespace {

// A test that names a command which is never run would wait for its fault forever.
std::string checked_name(std::string_view full_name) {
  auto const* const what = redis::command_named(full_name);
  if (what == nullptr || what->run == nullptr) {
    throw std::invalid_argument{redis::joined("no such command in the model: ", full_name)};
  }
  return std::string{what->name};
}

}  // namespace

redis::database& redis_model::impl::database_at(int index) {
  auto const wanted = static_cast<std::size_t>(index) + 1;
  if (databases.size() < wanted) {
    databases.resize(wanted);
  }
  return databases[wanted - 1];
}

void redis_model::impl::drop_connection(connection_id who) {
  auto const found = connections.find(who);
  if (found == connections.end()) {
    return;
  }
  std::erase_if(waits, [&](waiting const& w) { return w.who == who; });
  redis::leave_channels(*this, found->second);
  connections.erase(found);
}

void redis_model::impl::push(connection_id to, value message) {
  pushes.push_back({to, std::move(message), own_pushes_after_reply && to == executing});
}

redis_model::redis_model(std::int64_t unix_us) : impl_{std::make_unique<impl>()} {
  impl_->now_us = unix_us;
  impl_->started_us = unix_us;
  impl_->counts.resize(redis::all_commands().size());
}

redis_model::redis_model(redis_model&&) noexcept = default;
redis_model& redis_model::operator=(redis_model&&) noexcept = default;
redis_model::~redis_model() = default;

void redis_model::set_time_us(std::int64_t unix_us) { impl_->now_us = unix_us; }

void redis_model::set_number(unsigned number) { impl_->number = number; }

std::int64_t redis_model::time_us() const { return impl_->now_us; }

redis_model::connection_id redis_model::connect(std::string address) {
  auto const id = impl_->next_id++;
  redis::connection fresh;
  fresh.id = id;
  fresh.address = std::move(address);
  fresh.authenticated = impl_->password.empty();
  fresh.connected_at_us = impl_->now_us;
  impl_->connections.emplace(id, std::move(fresh));
  return id;
}

void redis_model::disconnect(connection_id who) { impl_->drop_connection(who); }

bool redis_model::connected(connection_id who) const { return impl_->connections.contains(who); }

value redis_model::execute(connection_id who, std::span<std::string_view const> argv) {
  auto const found = impl_->connections.find(who);
  if (found == impl_->connections.end() || argv.empty()) {
    return value::nothing();
  }
  impl_->executing = who;
  value reply = redis::execute(*impl_, found->second, argv);
  found->second.asking = redis::equal_ignoring_case(argv[0], "asking") && !reply.is_error();
  impl_->executing = 0;
  // A connection that killed itself is closed once its reply is made.
  if (std::find(impl_->killed.begin(), impl_->killed.end(), who) != impl_->killed.end()) {
    impl_->drop_connection(who);
  }
  return reply;
}

std::vector<redis_model::pushed> redis_model::take_pushes() { return std::exchange(impl_->pushes, {}); }

void redis_model::set_own_pushes_after_reply(bool after) { impl_->own_pushes_after_reply = after; }

std::vector<redis_model::connection_id> redis_model::take_killed() { return std::exchange(impl_->killed, {}); }

void redis_model::restart(bool keep_data) {
  impl_->connections.clear();
  impl_->channels.clear();
  impl_->shard_channels.clear();
  impl_->pushes.clear();
  impl_->killed.clear();
  impl_->scripts.clear();
  impl_->waits.clear();
  impl_->acknowledged.clear();
  impl_->next_id = 1;
  impl_->started_us = impl_->now_us;
  impl_->random = lua_host::first_random;
  ++impl_->run;
  if (!keep_data) {
    impl_->databases.clear();
  }
}

void redis_model::copy_data(redis_model const& other) { impl_->databases = other.impl_->databases; }

void redis_model::replicate() { impl_->replicating = true; }

std::vector<redis_model::effect> redis_model::take_effects() { return std::exchange(impl_->effects, {}); }

void redis_model::apply(effect const& what) { what(*impl_); }

void redis_model::set_replica(bool replica) {
  impl_->replica = replica;
  if (!replica) {
    return;
  }
  impl_->acknowledged.clear();
  for (auto const& w : std::exchange(impl_->waits, {})) {
    impl_->pushes.push_back(
        {w.who,
         value::error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")});
    impl_->killed.push_back(w.who);
    impl_->drop_connection(w.who);
  }
}

std::int64_t redis_model::offset() const { return impl_->offset; }

void redis_model::acknowledge(std::size_t replica, std::int64_t offset) {
  std::int64_t& known = impl_->acknowledged[replica];
  known = std::max(known, offset);
}

void redis_model::forget(std::size_t replica) { impl_->acknowledged.erase(replica); }

void redis_model::set_waits_for_own_writes(bool own) { impl_->waits_for_own_writes = own; }

bool redis_model::waits(connection_id who) const {
  return std::any_of(impl_->waits.begin(), impl_->waits.end(), [&](auto const& w) { return w.who == who; });
}

std::int64_t redis_model::impl::replicas_at(std::int64_t wanted) const {
  return std::count_if(acknowledged.begin(), acknowledged.end(), [&](auto const& one) { return one.second >= wanted; });
}

std::vector<redis_model::pushed> redis_model::take_waited() {
  std::vector<pushed> answers;
  std::erase_if(impl_->waits, [&](impl::waiting const& w) {
    std::int64_t const there = impl_->replicas_at(w.offset);
    if (there < w.replicas && (w.until_ms == 0 || impl_->now_ms() < w.until_ms)) return false;
    answers.push_back({w.who, value::number(there)});
    return true;
  });
  return answers;
}

namespace {

// Redis counts what a command has changed, and sends nothing to the replicas if that is nothing.
bool has_changed(redis::command const& what, std::span<std::string_view const> argv, value const& reply) {
  if (what.name == "set") {
    bool const gets = std::any_of(argv.begin() + 3, argv.end(),
                                  [](std::string_view word) { return redis::equal_ignoring_case(word, "get"); });
    return gets || !reply.is(value::kind::nil);
  }
  if (what.name == "zpopmin" || what.name == "zpopmax") return !reply.items.empty();
  bool const updates = what.name == "hset" || what.name == "zadd";  // and counts only what is new
  return updates || !reply.is(value::kind::integer) || reply.integer != 0;
}

}  // namespace

void redis_model::impl::record(redis::command const& what, std::span<std::string_view const> argv, value const& reply,
                               int selected) {
  if (!replicating) {
    return;
  }
  bool const writes = (what.marks & redis::command::write) != 0 && has_changed(what, argv, reply);
  bool const published = what.name == "publish" && !in_cluster;  // a Cluster has its bus for that
  if (writes || published) {
    ++offset;
  }
  if (published) {
    effects.push_back([channel = std::string{argv[1]}, message = std::string{argv[2]}](impl& to) {
      (void)to.publish(channel, message);
    });
    return;
  }
  if (!writes) {
    return;
  }
  if (what.name.starts_with("flush")) {
    effects.push_back([](impl& to) { to.databases.clear(); });
    return;
  }
  // Only DEL and the like have several keys; more words than keys do no harm.
  bool const several = what.name == "del" || what.name == "unlink";
  for (std::string_view const key : argv.subspan(1, several ? argv.size() - 1 : 1)) {
    record_key(key, selected);
  }
}

/// As it is now.
void redis_model::impl::record_key(std::string_view key, int selected) {
  auto const& all = database_at(selected);
  auto const place = all.find(key);
  std::optional<redis::entry> left;
  if (place != all.end()) {
    left = place->second;
  }
  effects.push_back([selected, name = std::string{key}, left = std::move(left)](impl& to) {
    auto& there = to.database_at(selected);
    if (left) {
      there.insert_or_assign(name, *left);
    } else {
      there.erase(name);
    }
  });
}

void redis_model::expire_cycle() {
  for (auto& all : impl_->databases) {
    std::erase_if(all, [this](auto const& item) { return impl_->expired(item.second); });
  }
}

void redis_model::require_password(std::string password) { impl_->password = std::move(password); }

void redis_model::set_config(std::string name, std::string setting) {
  impl_->config.insert_or_assign(std::move(name), std::move(setting));
}

std::size_t redis_model::key_count() const {
  std::size_t count = 0;
  for (auto const& all : impl_->databases) {
    for (auto const& item : all) {
      count += impl_->expired(item.second) ? 0U : 1U;
    }
  }
  return count;
}

std::vector<redis_model::key_info> redis_model::keys() const {
  std::vector<key_info> result;
  int index = 0;
  for (auto const& all : impl_->databases) {
    auto const first = static_cast<std::ptrdiff_t>(result.size());
    for (auto const& [name, what] : all) {
      if (impl_->expired(what)) {
        continue;
      }
      key_info info{name, std::string{redis::type_name(what)}, std::nullopt, index};
      if (what.expires_at_ms != redis::entry::no_expiry) {
        info.expires_at_ms = what.expires_at_ms;
      }
      result.push_back(std::move(info));
    }
    std::sort(result.begin() + first, result.end(),
              [](key_info const& a, key_info const& b) { return a.name < b.name; });
    ++index;
  }
  return result;
}

bool redis_model::erase(std::string_view key, int index) {
  redis::database& all = impl_->database_at(index);
  auto const place = all.find(key);
  if (place == all.end()) {
    return false;
  }
  bool const was_live = !impl_->expired(place->second);
  all.erase(place);
  return was_live;
}

value redis_model::peek(std::string_view key, int index) const {
  if (static_cast<std::size_t>(index) >= impl_->databases.size()) {
    return value::nil();
  }
  redis::database const& all = impl_->databases[static_cast<std::size_t>(index)];
  auto const place = all.find(key);
  if (place == all.end() || impl_->expired(place->second)) {
    return value::nil();
  }
  auto const& data = place->second.data;
  if (auto const* text = std::get_if<std::string>(&data)) {
    return value::bulk(*text);
  }
  value result;
  if (auto const* hash = std::get_if<redis::hash_data>(&data)) {
    result.type = value::kind::map;
    for (auto const& [field, content] : hash->fields) {
      result.items.push_back(value::bulk(field));
      result.items.push_back(value::bulk(content));
    }
  } else if (auto const* zset = std::get_if<redis::zset_data>(&data)) {
    result.type = value::kind::array;
    for (auto const& item : zset->entries) {
      result.items.push_back(value::list(value::kind::array, {value::bulk(item.member), value::real(item.score)}));
    }
  } else if (auto const* set = std::get_if<redis::set_data>(&data)) {
    result.type = value::kind::set;
    for (auto const& member : set->members) {
      result.items.push_back(value::bulk(member));
    }
  }
  return result;
}

std::string const* redis_model::text_at(std::string_view key, int index) const {
  if (static_cast<std::size_t>(index) >= impl_->databases.size()) {
    return nullptr;
  }
  redis::database const& all = impl_->databases[static_cast<std::size_t>(index)];
  auto const place = all.find(key);
  bool const there = place != all.end() && !impl_->expired(place->second);
  return there ? std::get_if<std::string>(&place->second.data) : nullptr;
}

std::optional<std::int64_t> redis_model::expires_at_ms(std::string_view key, int index) const {
  if (static_cast<std::size_t>(index) >= impl_->databases.size()) {
    return std::nullopt;
  }
  redis::database const& all = impl_->databases[static_cast<std::size_t>(index)];
  auto const place = all.find(key);
  if (place == all.end() || impl_->expired(place->second) || place->second.expires_at_ms == redis::entry::no_expiry) {
    return std::nullopt;
  }
  return place->second.expires_at_ms;
}

std::size_t redis_model::shard_subscriber_count(std::string_view channel) const {
  auto const found = impl_->shard_channels.find(channel);
  return found == impl_->shard_channels.end() ? 0 : found->second.size();
}

std::size_t redis_model::subscriber_count(std::string_view channel) const {
  auto const found = impl_->channels.find(channel);
  return found == impl_->channels.end() ? 0 : found->second.size();
}

void redis_model::inject(fault what) {
  if (!what.command.empty()) {
    what.command = checked_name(what.command);
  }
  impl_->faults.push_back(std::move(what));
}

void redis_model::fail_next(std::string_view command, std::string_view error, std::size_t times) {
  inject({std::string{command}, std::string{error}, 0, times, where::anywhere});
}

void redis_model::clear_faults() { impl_->faults.clear(); }

void redis_model::deny(std::string_view command) { impl_->denied.insert(checked_name(command)); }

void redis_model::allow(std::string_view command) { impl_->denied.erase(checked_name(command)); }

void redis_model::set_out_of_memory(bool out) { impl_->out_of_memory = out; }

void redis_model::demand_declared_keys() { impl_->demands_declared_keys = true; }

std::uint64_t redis_model::calls(std::string_view name) const {
  return impl_->counts[redis::command_named(checked_name(name))->index];
}

std::map<std::string, std::uint64_t> redis_model::calls() const {
  std::map<std::string, std::uint64_t> result;
  for (auto const& what : redis::all_commands()) {
    if (impl_->counts[what.index] != 0) {
      result.emplace(what.name, impl_->counts[what.index]);
    }
  }
  return result;
}

void redis_model::reset_calls() { std::fill(impl_->counts.begin(), impl_->counts.end(), 0); }

}  // namespace conch::sim
