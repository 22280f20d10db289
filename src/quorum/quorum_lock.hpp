// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/quorum.hpp"

#include <algorithm>
#include <string>

// What the quorum keeps: for each server, for each lock, for each release under way.
namespace conch::quorum {

using engine::place;

/// One server: its protocol, and where that protocol's events go.
struct quorum::member final : engine::backend_events, engine::log_sink {
  member(quorum& q, std::size_t n, std::string name, engine::wire& wire) : in{q}, number{n}, shown{std::move(name)}, out{wire} {}

  quorum& in;
  std::size_t const number;
  std::string const shown;
  engine::wire& out;
  std::unique_ptr<engine::server> protocol;
  statistics counted;                          // of this server alone
  time_point fresh_until = time_point::min();  // min_server_uptime: it has no vote before
  std::uint64_t votes = 0;                     // given to us
  std::string last_trouble;
  error_code refusal;  // of the last attempt to connect

  bool up() const noexcept { return protocol->connected(); }

  void granted(place& s, bool pushed, time_point now) override;
  void busy(place& s, time_point now) override;
  void queued(place& s, time_point now) override;
  void left(place& s, time_point now) override;
  void failed(place& s, error_code why, time_point now) override;
  void extended(place& s, time_point now) override;
  void renewal_failed(place& s, time_point now) override;
  void lost(place& s, time_point now) override;
  void released(engine::receipt& r, bool was_mine, error_code why, time_point now) override;
  void settled(place& s) override;
  void connection_changed(time_point now) override;
  void connection_refused(error_code why, time_point now) override;
  place* find(std::string_view name) override;
  place& find_or_make(std::string_view name) override;
  void note(bool is_error, std::string_view words) override;
};

/// One lock at one server.
struct quorum::voter {
  voter(quorum_lock& b, std::size_t n, std::string_view name) : in{b}, server{n}, place{name} { place.owner = this; }

  quorum_lock& in;
  std::size_t const server;
  engine::place place;
  bool refused = false;                                           // busy, or left
  error_code trouble;                                             // why it could not be had; until the server says something else
  time_point since{};                                             // owned: no earlier than this it became ours
  time_point not_before = time_point::min();                      // idle: not to be asked earlier
  time_point gone_at = time_point::min();                         // of a hold: when the server said that it is not ours
  std::vector<std::pair<std::int64_t, std::int64_t>> yielded_to;  // whom it was given back for: client and ticket
  unsigned rests = 0;                                             // in a row
  time_point rests_until = time_point::min();                     // at least, however the lock moves
};

/// One lock.
struct quorum::quorum_lock {
  enum class phase : std::uint8_t {
    idle,
    starting,  // there is no ticket yet: too few servers have told their time
    collecting,
    leaving,  // a quorum that comes now is still taken
    held,
  };

  quorum_lock(quorum& q, std::string lock_name, std::size_t servers);

  std::string const name;
  quorum& in;
  std::vector<std::unique_ptr<voter>> votes;
  place* front = nullptr;  // of the cohort
  phase at = phase::idle;
  bool wait = false;
  bool pushed = false;  // the last vote came by push
  engine::milliseconds lease{};
  std::int64_t ticket = 0;
  std::int64_t floor = 0;        // no fence at or below this is of use
  std::int64_t agreeing_on = 0;  // strict_fence: the fence that a quorum is to accept; 0: not begun
  time_point began{};            // of asking for the first time
  time_point since{};            // of asking, or of agreeing, or of leaving
  time_point won_at{};           // held: since when
  time_point ask_others_at = engine::timer_queue::never;
  duration pause{};         // before the others are asked again
  std::uint64_t round = 0;  // changes when what was begun is over
  std::uint32_t keepers = 0;
  engine::timer timer;

  bool asks() const noexcept { return at == phase::collecting || at == phase::leaving; }
  /// A try, whose end is not yet asked for.
  bool tries() const noexcept { return !wait && at == phase::collecting; }
  std::size_t owned() const {
    return static_cast<std::size_t>(std::count_if(votes.begin(), votes.end(), [](auto const& v) { return v->place.at == place::state::owned; }));
  }
};

/// A release, or a giving up, that somebody waits for.
struct quorum::release_round {
  struct vote_release : engine::receipt {
    release_round* of = nullptr;
    bool open = false;
    bool vote = false;  // was in hand: what the server grants between then and its release never was
  };

  release_round(quorum& q, std::size_t servers, engine::receipt* r, place* s)
      : in{q}, whom{r}, front{s}, votes(servers), timer{this, [](void* self, time_point now) {
                                                          auto& f = *static_cast<release_round*>(self);
                                                          f.late = true;
                                                          f.in.tell_released(f, now);
                                                        }} {
    for (vote_release& p : votes) p.of = this;
    if (whom != nullptr) whom->waited_by = this;
  }

  quorum& in;
  engine::receipt* whom;
  place* front;                                                   // counted, until whom has been told
  std::vector<vote_release> votes;                                // never grows: clean-ups point into it
  std::list<std::unique_ptr<release_round>>::iterator listed_at;  // in the quorum's list
  std::size_t open = 0, answered = 0;
  std::size_t votes_open = 0, votes_mine = 0;  // of the votes in hand
  bool begun = false;                          // all releases are on their way
  bool late = false;                           // stragglers are not waited for any more
  engine::timer timer;
};

/// The quorum_lock stays while anybody works on it.
class quorum::keeping {
 public:
  explicit keeping(quorum_lock& b) noexcept : b_{b} { ++b_.keepers; }
  keeping(keeping const&) = delete;
  keeping& operator=(keeping const&) = delete;
  ~keeping() {
    --b_.keepers;
    b_.in.retire(b_);
  }

 private:
  quorum_lock& b_;
};

}  // namespace conch::quorum
