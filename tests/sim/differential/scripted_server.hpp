// lua/*.lua on the model of Redis, fed and read through the codec that the client uses; and what it is compared with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "resp/decoder.hpp"
#include "servers/redis/codec.hpp"
#include "sim/differential/compared.hpp"
#include "sim/model/redis_model.hpp"
#include "sim/mutants/mutants.hpp"
#include "support/messages.hpp"

namespace conch::sim {

/// lua/*.lua on the model, fed and read through the codec the client uses.
class scripted_server {
 public:
  struct outcome {
    std::vector<std::int64_t> answer;  // as it was sent
    any_reply reply;                   // as the client reads it
    seen_grants pushes;
  };

  explicit scripted_server(std::vector<std::string> const& clients) {
    for (std::string const& client : clients) {
      connections_[client] = connect();
    }
  }

  void at(std::int64_t now_us) {
    model_.set_time_us(now_us);
    // What has expired is gone, as in the store: it must not come back when the clock does.
    model_.expire_cycle();
  }

  void subscribe(std::string const& client, bool on) {
    if (on) {
      carry_out(protocol::subscribe_command{}, client);
    } else {
      model_.disconnect(connections_[client]);
      connections_[client] = connect();
    }
  }

  outcome carry_out(protocol::command const& c, std::string const& client) {
    value reply = execute(c, client);
    if (reply.error_code() == "NOSCRIPT") {
      protocol::command with_source = c;
      if (auto* acquire = std::get_if<protocol::acquire_command>(&with_source)) acquire->with_source = true;
      if (auto* tries = std::get_if<protocol::acquire_all_command>(&with_source)) tries->with_source = true;
      if (auto* release = std::get_if<protocol::release_command>(&with_source)) release->with_source = true;
      if (auto* renew = std::get_if<protocol::renew_command>(&with_source)) renew->with_source = true;
      if (auto* confirm = std::get_if<protocol::confirm_command>(&with_source)) confirm->with_source = true;
      if (auto* inspect = std::get_if<protocol::inspect_command>(&with_source)) inspect->with_source = true;
      if (auto* force = std::get_if<protocol::force_command>(&with_source)) force->with_source = true;
      if (auto* limit = std::get_if<protocol::limit_command>(&with_source)) limit->with_source = true;
      if (auto* request = std::get_if<protocol::request_command>(&with_source)) request->with_source = true;
      if (auto* watch = std::get_if<protocol::watch_command>(&with_source)) watch->with_source = true;
      reply = execute(with_source, client);
    }
    outcome result = read(c, reply);
    for (auto const& push : model_.take_pushes()) {
      read_push(push, result.pushes);
    }
    return result;
  }

  std::size_t key_count() const { return model_.key_count(); }

  /// What a command of the server answers, as it is.
  value ask(std::vector<std::string> const& words) {
    std::vector<std::string_view> const views{words.begin(), words.end()};
    return model_.execute(own_, views);
  }

 private:
  redis_model::connection_id connect() {
    auto const id = model_.connect("10.0.0.1:" + std::to_string(++port_));
    std::string_view const hello[] = {"HELLO", "3"};
    model_.execute(id, hello);
    return id;
  }

  value execute(protocol::command const& c, std::string const& client) {
    std::string bytes;
    redis::encode(c, client, bytes);
    resp::decoder in;
    auto const message = test::only_message(in, bytes);
    std::vector<std::string_view> words;
    for (auto const& node : message.subspan(1)) {
      words.push_back(node.text);
    }
    if (words[0].starts_with("EVAL")) words[1] = mutated_script(words[1]);
    return model_.execute(connections_.at(client), words);
  }

  static outcome read(protocol::command const& c, value const& reply) {
    std::string bytes;
    append_resp(bytes, reply);
    resp::decoder in;
    outcome result;
    if (reply.is(value::kind::none)) return result;  // to SUBSCRIBE, which answers with a push
    auto const message = test::only_message(in, bytes);
    bool const tries = std::holds_alternative<protocol::acquire_all_command>(c);
    auto const answer =
        tries ? redis::to_tries_answer(message, result.answer) : redis::to_answer(message, result.answer);
    EXPECT_TRUE(answer.what == protocol::fault::none || answer.what == protocol::fault::wrong_type) << answer.words;
    result.reply = read_reply(c, answer);
    return result;
  }

  void read_push(redis_model::pushed const& push, seen_grants& out) {
    std::string bytes;
    append_resp(bytes, push.message);
    resp::decoder in;
    auto const message = test::only_message(in, bytes);
    for (auto const& [client, id] : connections_) {
      if (id != push.to) continue;
      std::string name;
      auto const said = redis::read_push(message, client, name);
      auto const* const p = std::get_if<protocol::push>(&said);
      if (p != nullptr && !std::holds_alternative<protocol::missed_turn>(*p)) out.push_back(seen(client, *p));
      EXPECT_TRUE(p != nullptr || std::get<redis::notice>(said) != redis::notice::malformed);
    }
  }

  int port_ = 0;
  redis_model model_;
  redis_model::connection_id own_ = connect();
  std::map<std::string, redis_model::connection_id> connections_;
};

}  // namespace conch::sim
