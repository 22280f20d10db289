// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "protocol/server/catch_up.hpp"
#include "protocol/server/introducer.hpp"
#include "protocol/server/release_answers.hpp"
#include "protocol/server/tries.hpp"
#include "protocol/wire.hpp"

namespace conch::protocol {

using namespace engine;

/// Takes what the wire reports, and gives it to the part that it concerns.
class arrivals final : public wire_events {
 public:
  arrivals(common_parts& on, cleanups& pending, asking& asks, tries& several, release_answers& released,
           renewals& renews, pushes& pushed, orders& asked, introducer& introduced, catch_up& rest) noexcept
      : on_{on},
        cleanups_{pending},
        asks_{asks},
        several_{several},
        released_{released},
        renews_{renews},
        pushes_{pushed},
        asked_{asked},
        introduced_{introduced},
        rest_{rest} {}

  void connected_as(session const& s, time_point now) override;
  void connect_failed(fault what, std::string_view words, time_point now) override;
  void disconnected(std::string_view why, time_point now) override;
  void answered(answer const& a, time_point now) override;
  void pushed(push const& p, time_point now) override;

 private:
  void greet(session const& s, time_point now);
  void read_answer(in_flight const& r, answer const& a, time_point now);
  void session_answered(in_flight const& r, answer const& a, time_point now);
  void forget_unanswered(time_point now);

  common_parts& on_;
  cleanups& cleanups_;
  asking& asks_;
  tries& several_;
  release_answers& released_;
  renewals& renews_;
  pushes& pushes_;
  orders& asked_;
  introducer& introduced_;
  catch_up& rest_;
};

}  // namespace conch::protocol
