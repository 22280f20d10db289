// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/simulated/link.hpp"

#include "base/connection_log.hpp"
#include "servers/simulated/server.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace conch::simulated {

namespace {

/// One way through the network: mostly 50 to 250 µs, one time in sixteen up to 20 ms.
duration latency(surroundings& w) {
  auto const slow = w.below(16) == 0 ? w.below(20'000) : 0;
  return std::chrono::microseconds{50 + w.below(200) + slow};
}

}  // namespace

link::link(servers::client_services const& client, server& to, std::string shown)
    : host_{client.shell},
      on_{client.on},
      settings_{client.settings},
      id_{client.client_id},
      who_{to.world().process_of(context_of(client.on))},
      shown_{std::move(shown)},
      server_{to},
      back_off_{to.world().below(1'000'000'007)} {
  server_.attach(*this);
}

link::~link() {
  *exists_ = false;
  server_.detach(*this);
}

/// In the world's loop, unless the connection has ended by then.
void link::later(duration delay, std::function<void()> f) {
  server_.world().later(delay, [this, exists = exists_, mine = connection_, f = std::move(f)] {
    if (*exists && connection_ == mine) f();
  });
}

/// Is called as an input of the client, when its process has time for it.
void link::give(input f) {
  auto keep = host_.keep();
  if (keep == nullptr) return;  // about to be destroyed
  asio::post(on_, [this, mine = stream_, keep = std::move(keep), f = std::move(f)] {
    if (mine == stream_) host_.give(f);
  });
}

// ---------------------------------------------------------------------------------------------------------- connecting

void link::connect() {
  if (std::exchange(is_wanted_, true)) return;
  give([this](time_point) { attempt(); });
}

void link::attempt() {
  is_attempting_ = true;
  later(latency(server_.world()), [this, asked = clock::now()] { reach(asked); });
}

/// At the server.
void link::reach(time_point asked) {
  if (!server_.is_up()) return later(latency(server_.world()), [this] { fail(); });
  later(latency(server_.world()), [this, asked] { opened(asked); });
}

void link::opened(time_point asked) {
  if (!server_.is_up()) return fail();
  is_attempting_ = false;
  is_open_ = true;
  up_since_ = last_arrival_ = last_answer_ = clock::now();
  server_.world().note(who_, "connected to " + server_.name());
  give([this, greeting = welcome(asked)](time_point now) {
    shortest_lease_ = duration::max();
    greeting(now);
  });
}

void link::fail() {
  is_attempting_ = false;
  give([this](time_point now) {
    constexpr std::string_view why = "connection refused";
    auto const line = line_of(connection_event::failed, shown_, why);
    host_.log(line.level, line.words);
    refused(why, now);
    pause();
  });
}

void link::pause() {
  later(back_off_.next(settings_, shortest_lease_), [this] { give([this](time_point) { attempt(); }); });
}

std::string link::unfinished() const { return is_attempting_ ? shown_ + ": not connected yet" : std::string{}; }

// ------------------------------------------------------------------------------------------------------------ messages

void link::to_server(std::function<void()> f) {
  if (!is_open_) return;  // broken, and the client does not know it yet
  last_arrival_ = std::max(last_arrival_, clock::now() + latency(server_.world()));
  later(last_arrival_ - clock::now(), std::move(f));
}

void link::to_client(input f) {
  last_answer_ = std::max(last_answer_, clock::now() + latency(server_.world()));
  later(last_answer_ - clock::now(), [this, f = std::move(f)] { give(f); });
}

// ---------------------------------------------------------------------------------------------------------------- ends

/// Nothing that is on its way arrives.
void link::end() {
  ++connection_;
  is_attempting_ = is_open_ = false;
  left();
}

void link::broken(std::string_view why) {
  if (!is_open_) return;
  server_.world().note(who_, "its connection to " + server_.name() + " breaks: " + std::string{why});
  end();
  later(latency(server_.world()), [this, why = std::string{why}] {
    give([this, why](time_point now) {
      ++stream_;
      auto const line = line_of(connection_event::lost, shown_, why);
      host_.log(line.level, line.words);
      lost(why, now);
      back_off_.lasted(now - up_since_);
      pause();
    });
  });
}

void link::drop(std::string_view why) {
  later(duration::zero(), [this, why = std::string{why}] {
    ++stream_;
    broken(why);
  });
}

void link::replace(std::string_view why, bool at_once) {
  ++stream_;
  later(duration::zero(), [this, why = std::string{why}, at_once] {
    server_.world().note(who_, "ends its connection to " + server_.name() + ": " + why);
    back_off_.lasted(clock::now() - up_since_);
    end();
    if (at_once) give([this](time_point) { attempt(); });
    else pause();
  });
}

void link::finish() {
  ++stream_;
  end();
}

}  // namespace conch::simulated
