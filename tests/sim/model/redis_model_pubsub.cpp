// Channels, shard channels and patterns.

#include "sim/model/redis_model_impl.hpp"

#include <algorithm>

namespace conch::sim::redis {

namespace {

using subscriber_map = std::map<std::string, std::vector<redis_model::connection_id>, std::less<>>;

// What differs between channels and shard channels.
struct kind_of_channel {
  std::string_view message;
  std::string_view subscribe;
  std::string_view unsubscribe;
  subscriber_map redis_model::impl::*subscribers;
  std::vector<std::string> connection::*mine;
};

constexpr kind_of_channel plain{"message", "subscribe", "unsubscribe", &redis_model::impl::channels,
                                &connection::channels};
constexpr kind_of_channel sharded{"smessage", "ssubscribe", "sunsubscribe", &redis_model::impl::shard_channels,
                                  &connection::shard_channels};

void remove_subscriber(subscriber_map& all, std::string_view channel, redis_model::connection_id who) {
  auto const found = all.find(channel);
  if (found == all.end()) {
    return;
  }
  std::erase(found->second, who);
  if (found->second.empty()) {
    all.erase(found);
  }
}

std::size_t publish_to(redis_model::impl& server, kind_of_channel const& kind, std::string_view channel,
                       std::string_view message) {
  auto const& all = server.*kind.subscribers;
  auto const found = all.find(channel);
  if (found == all.end()) {
    return 0;
  }
  for (auto const who : found->second) {
    server.push(
        who, value::list(value::kind::push, {value::bulk(kind.message), value::bulk(channel), value::bulk(message)}));
  }
  return found->second.size();
}

// The answer to SUBSCRIBE and the like: never held back until after a reply, for it is the reply.
void confirm(call& c, std::string_view what, value channel, std::size_t left) {
  c.server.pushes.push_back({c.from.id,
                             value::list(value::kind::push, {value::bulk(what), std::move(channel),
                                                             value::number(static_cast<std::int64_t>(left))}),
                             false});
}

// Where the number of a connection's channels is told, its patterns count too; shard channels are counted alone.
std::size_t patterns_beside(connection const& who, kind_of_channel const& kind) {
  return &kind == &plain ? who.patterns.size() : 0;
}

void subscribe_to(call& c, kind_of_channel const& kind) {
  auto& mine = c.from.*kind.mine;
  for (auto const channel : c.argv.subspan(1)) {
    if (std::find(mine.begin(), mine.end(), channel) == mine.end()) {
      mine.emplace_back(channel);
      (c.server.*kind.subscribers)[std::string{channel}].push_back(c.from.id);
    }
    confirm(c, kind.subscribe, value::bulk(channel), mine.size() + patterns_beside(c.from, kind));
  }
}

void unsubscribe_from(call& c, kind_of_channel const& kind) {
  auto& mine = c.from.*kind.mine;
  std::vector<std::string> leaving{c.argv.begin() + 1, c.argv.end()};
  if (leaving.empty()) {
    leaving = mine;
  }
  if (leaving.empty()) {
    confirm(c, kind.unsubscribe, value::nil(), patterns_beside(c.from, kind));
  }
  for (auto const& channel : leaving) {
    if (std::erase(mine, channel) != 0) {
      remove_subscriber(c.server.*kind.subscribers, channel, c.from.id);
    }
    confirm(c, kind.unsubscribe, value::bulk(channel), mine.size() + patterns_beside(c.from, kind));
  }
}

void psubscribe(call& c) {
  for (auto const pattern : c.argv.subspan(1)) {
    auto& mine = c.from.patterns;
    if (std::find(mine.begin(), mine.end(), pattern) == mine.end()) mine.emplace_back(pattern);
    confirm(c, "psubscribe", value::bulk(pattern), c.from.channels.size() + mine.size());
  }
}

void pubsub_numsub(call& c) {
  auto& items = c.list(value::kind::array).items;
  for (auto const channel : c.argv.subspan(2)) {
    auto const found = c.server.channels.find(channel);
    items.push_back(value::bulk(channel));
    items.push_back(value::number(found == c.server.channels.end() ? 0 : std::ssize(found->second)));
  }
}

void publish(call& c) {
  c.count(c.server.publish(c[1], c[2]));
  if (c.server.in_cluster) c.server.in_cluster->bus.push_back({false, std::string{c[1]}, std::string{c[2]}});
}

void spublish(call& c) {
  c.count(c.server.publish_to_shard(c[1], c[2]));
  if (c.server.in_cluster) c.server.in_cluster->bus.push_back({true, std::string{c[1]}, std::string{c[2]}});
}

void subscribe(call& c) { subscribe_to(c, plain); }
void ssubscribe(call& c) { subscribe_to(c, sharded); }
void unsubscribe(call& c) { unsubscribe_from(c, plain); }
void sunsubscribe(call& c) { unsubscribe_from(c, sharded); }

}  // namespace

void leave_channels(redis_model::impl& server, connection const& who) {
  for (auto const* kind : {&plain, &sharded}) {
    for (auto const& channel : who.*kind->mine) {
      remove_subscriber(server.*kind->subscribers, channel, who.id);
    }
  }
}

void drop_shard_channels(redis_model::impl& server, int slot) {
  for (auto place = server.shard_channels.begin(); place != server.shard_channels.end();) {
    if (redis_model::slot_of(place->first) != slot) {
      ++place;
      continue;
    }
    for (auto const id : place->second) {
      auto& mine = server.connections.at(id).shard_channels;
      std::erase(mine, place->first);
      server.pushes.push_back({id,
                               value::list(value::kind::push, {value::bulk("sunsubscribe"), value::bulk(place->first),
                                                               value::number(std::ssize(mine))}),
                               false});
    }
    place = server.shard_channels.erase(place);
  }
}

std::span<command const> pubsub_commands() {
  using enum command::flags;
  static constexpr command commands[] = {
      {"publish", 3, none, publish},
      {"spublish", 3, first_key | shard_channel, spublish},
      {"psubscribe", -2, no_script | while_subscribed, psubscribe},
      {"pubsub", -2, container, nullptr},
      {"pubsub|numsub", -2, none, pubsub_numsub},
      {"subscribe", -2, no_script | while_subscribed, subscribe},
      {"ssubscribe", -2, no_script | while_subscribed | first_key | more_keys | shard_channel, ssubscribe},
      {"unsubscribe", -1, no_script | while_subscribed, unsubscribe},
      {"sunsubscribe", -1, no_script | while_subscribed | first_key | more_keys | shard_channel, sunsubscribe},
  };
  return commands;
}

}  // namespace conch::sim::redis

namespace conch::sim {

std::size_t redis_model::impl::publish_to_shard(std::string_view channel, std::string_view message) {
  return redis::publish_to(*this, redis::sharded, channel, message);
}

std::size_t redis_model::impl::publish(std::string_view channel, std::string_view message) {
  std::size_t heard = redis::publish_to(*this, redis::plain, channel, message);
  for (auto const& [id, who] : connections) {
    for (std::string const& pattern : who.patterns) {
      if (!redis::glob_match(pattern, channel)) continue;
      push(id, value::list(value::kind::push, {value::bulk("pmessage"), value::bulk(pattern), value::bulk(channel),
                                               value::bulk(message)}));
      ++heard;
    }
  }
  return heard;
}

}  // namespace conch::sim
