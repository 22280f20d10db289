// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "quorum/quorum.hpp"

#include <algorithm>
#include <string>

// What the quorum keeps for each server, each lock, and each release under way.
namespace conch::quorum {

/// One server: its protocol, and the receiver of that protocol's events.
struct quorum::member final : engine::backend_events, engine::log_sink {
  member(quorum& q, std::size_t n, std::string name, protocol::wire& wire) : in{q}, number{n}, shown{std::move(name)}, out{wire} {}

  quorum& in;
  std::size_t const number;
  std::string const shown;
  protocol::wire& out;
  std::unique_ptr<protocol::server> server;
  statistics counted;                          // the statistics of this server alone
  time_point fresh_until = time_point::min();  // the server has no vote before this (min_server_uptime)
  std::uint64_t votes = 0;                     // votes that the server has given to this client
  std::string last_trouble;
  error_code refusal;                  // why the server refused the last attempt to connect
  std::optional<std::size_t> same_as;  // that member is the same server, and has the vote of both

  bool up() const noexcept { return server->connected(); }
  bool has_vote() const noexcept { return up() && !same_as; }

  std::string why_no_vote() const { return same_as ? in.why_double(*this) : up() ? std::string{} : server->link().why_not_connected(); }

  void granted(engine::place& s, bool pushed, time_point now) override;
  void busy(engine::place& s, time_point now) override;
  void queued(engine::place& s, time_point now) override;
  void left(engine::place& s, time_point now) override;
  void failed(engine::place& s, error_code why, time_point now) override;
  void extended(engine::place& s, time_point now) override;
  void renewal_failed(engine::place& s, time_point now) override;
  void lost(engine::place& s, time_point now) override;
  void released(engine::receipt& r, bool was_mine, error_code why, time_point now) override;
  void settled(engine::place& s) override;
  void connection_changed(time_point now) override;
  void connection_refused(error_code why, time_point now) override;
  engine::place* find(std::string_view name) override;
  engine::place& find_or_make(std::string_view name) override;
  void note(bool is_error, std::string_view words) override;
};

/// One lock at one server.
struct quorum::vote {
  vote(quorum_lock& b, member& m, std::string_view name) : in{b}, from{m}, place{*m.server, name, {}} { place.owner = this; }

  quorum_lock& in;
  member& from;
  protocol::place place;
  bool refused = false;                                           // the server said busy, or we left its line
  error_code trouble;                                             // why the vote could not be had, until the server says something else
  time_point since{};                                             // owned: the vote did not become ours earlier than this
  time_point not_before = time_point::min();                      // idle: not to be asked earlier
  time_point gone_at = time_point::min();                         // of a hold: when the server said that the vote is not ours
  std::vector<std::pair<std::int64_t, std::int64_t>> yielded_to;  // the rivals that it was given back for: client and ticket
  unsigned rests = 0;                                             // how often the vote rested, in a row
  time_point rests_until = time_point::min();                     // the vote rests until then at least, however the lock moves
};

/// One lock.
struct quorum::quorum_lock : engine::list_hook<quorum::quorum_lock> {
  enum class phase : std::uint8_t {
    idle,
    starting,  // waits for room; or there is no ticket yet: too few servers have told their time
    collecting,
    leaving,  // a quorum that comes now is still taken
    held,
  };

  quorum_lock(quorum& q, std::string lock_name);

  std::string const name;
  quorum& in;
  std::vector<std::unique_ptr<vote>> votes;
  cohort_place* front = nullptr;  // set: the cohort asks for the lock, or holds it
  phase at = phase::idle;
  bool wait = false;
  bool pushed = false;  // the last vote came by push
  bool told_in_line = false;
  std::size_t together = 0;  // asked for, and too few servers have answered: with so many others, itself included; else 0
  engine::milliseconds lease{};
  std::int64_t ticket = 0;
  std::int64_t floor = 0;        // no fence at or below this is of use
  std::int64_t agreeing_on = 0;  // strict_fence: the fence that a quorum is to accept; 0: not begun
  time_point began{};            // when this attempt first asked
  time_point since{};            // when it began to ask, to agree, or to leave
  time_point won_at{};           // held: since when
  time_point ask_others_at = engine::timer_queue::never;
  duration pause{};         // before the others are asked again
  std::uint64_t round = 0;  // changes when an attempt or a hold is over
  std::uint32_t keepers = 0;
  engine::timer timer;

  bool asks() const noexcept { return at == phase::collecting || at == phase::leaving; }
  /// A try that is not told to end yet.
  bool tries() const noexcept { return !wait && at == phase::collecting; }
  std::size_t owned() const {
    return static_cast<std::size_t>(std::count_if(votes.begin(), votes.end(), [this](auto const& v) { return in.counts(*v); }));
  }
};

/// Keeps a quorum_lock alive while a function works on it, or the cohort has a place at it.
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

/// The cohort's place at a lock. The lock may outlive it: votes are given back in the background.
struct quorum::cohort_place final : engine::place {
  cohort_place(quorum_lock& l, std::string_view lock_name) : place{lock_name, {}}, lock{l}, keep{l} {}

  quorum_lock& lock;
  keeping const keep;
};

/// A release, or the end of a wait, whose caller waits for the answer.
struct quorum::release_round {
  struct vote_release : engine::receipt {
    release_round* of = nullptr;
    bool open = false;
    bool vote = false;  // the vote was in hand when the release began; a later grant does not count
  };

  release_round(quorum& q, std::size_t servers, engine::receipt* r, cohort_place* s)
      : in{q}, whom{r}, front{s}, votes(servers), timer{this, [](void* self, time_point now) {
                                                          auto& f = *static_cast<release_round*>(self);
                                                          f.late = true;
                                                          f.in.tell_released(f, now);
                                                        }} {
    for (vote_release& p : votes) p.of = this;
    if (whom != nullptr) whom->pending = this;
  }

  quorum& in;
  engine::receipt* whom;
  cohort_place* front;                                            // its reference is counted until `whom` has been told
  std::vector<vote_release> votes;                                // never grows: clean-ups point into it
  std::list<std::unique_ptr<release_round>>::iterator listed_at;  // in the quorum's list
  std::size_t open = 0, answered = 0;
  std::size_t votes_open = 0, votes_mine = 0;  // of the votes that were in hand
  bool begun = false;                          // all releases are on their way
  bool late = false;                           // late servers are not waited for any more
  engine::timer timer;
};

}  // namespace conch::quorum
