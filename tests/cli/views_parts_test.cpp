// What watch shows, and what doctor makes of what it has measured.

#include <gtest/gtest.h>

#include <cli/columns.hpp>
#include <cli/doctor_checks.hpp>
#include <cli/measure.hpp>
#include <cli/watch_view.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace conch::cli {
namespace {

using namespace std::chrono_literals;

lock_status held_by(std::vector<std::int64_t> const& fences, std::uint64_t waiting) {
  lock_status s;
  s.held = s.taken = static_cast<std::uint32_t>(fences.size());
  s.waiting = waiting;
  for (std::int64_t const fence : fences) {
    lock_holder h;
    h.fence = fence;
    h.client = "client";
    s.holders.push_back(h);
  }
  return s;
}

TEST(WatchView, TellsWhatIsDifferentAndCountsNewGrants) {
  watch_view view;
  time_point const begin = time_point{} + 1h;
  EXPECT_EQ(view.look({{"a", held_by({1}, 0)}, {"b", held_by({2}, 3)}}, begin).size(), 2u);
  EXPECT_EQ(view.grants_per_second(), 0) << "nobody knows since when they are held";
  EXPECT_EQ(view.look({{"a", held_by({1}, 0)}, {"b", held_by({2}, 3)}}, begin + 1s).size(), 0u);
  auto const changes = view.look({{"a", held_by({4}, 0)}, {"c", held_by({5}, 0)}}, begin + 3s);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[2].name, "b");
  EXPECT_FALSE(changes[2].now.locked()) << "gone";
  EXPECT_EQ(view.grants_per_second(), 1.0) << "two in two seconds";
  EXPECT_EQ(view.look({{"a", held_by({4}, 1)}, {"c", held_by({5}, 0)}}, begin + 4s).size(), 1u) << "another waiter";
}

TEST(WatchView, FitsTheScreen) {
  watch_view view;
  watch_view::statuses all;
  for (int i = 0; i < 50; ++i)
    all.emplace_back("lock " + std::to_string(i) + "\x1b[2J", held_by({1 + i}, static_cast<std::uint64_t>(i)));
  view.look(all, time_point{} + 1h);
  std::vector<std::string> const lines = view.screen(10, 60, {});
  EXPECT_EQ(lines.size(), 10u);
  EXPECT_TRUE(lines[2].starts_with("lock 49\\x1b[2J")) << lines[2];
  EXPECT_EQ(lines.back(), "and 43 more");
  for (std::string const& line : lines) EXPECT_LE(columns_of(line), 60u);
  EXPECT_EQ(padded("für €uro", 5), "für €");
  EXPECT_EQ(padded("a", 3), "a  ");
  EXPECT_EQ(padded("漢字", 5), "漢字 ");
  EXPECT_EQ(padded("漢字", 3), "漢 ") << "half a character is none";
  EXPECT_EQ(columns_of("e\xcc\x81"), 1u) << "a combining mark";
  EXPECT_EQ(columns_of("🔒"), 2u);
}

TEST(CliWatch, FitsAScreenOfEightyColumnsAndAWideOne) {
  watch_view view;
  watch_view::statuses all;
  for (std::string const name : {"漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字", "short", "\x1b[31mred"}) {
    lock_status s;
    s.kind = lock_status::kind_of_lock::shared_mutex;
    s.held = s.taken = 2;
    s.holders.push_back({.client = "0123456789abcdef0123456789abcdef", .fence = 4096});
    all.emplace_back(name, s);
  }
  view.look(all, time_point{} + 1s);
  for (std::size_t const columns : {40U, 80U, 124U, 125U, 200U}) {
    std::vector<std::string> const lines = view.screen(24, columns, {});
    ASSERT_EQ(lines.size(), 5u);
    for (std::string const& line : lines) {
      EXPECT_LE(columns_of(line), columns) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
    if (columns < 80) continue;
    // The holder of each is under the heading.
    std::size_t const holder = columns_of(lines[1].substr(0, lines[1].find("HOLDER")));
    for (std::size_t i = 2; i < 5; ++i) {
      auto const at = lines[i].find("01234567");
      ASSERT_NE(at, std::string::npos) << lines[i];
      EXPECT_EQ(columns_of(lines[i].substr(0, at)), holder) << lines[i];
      EXPECT_NE(lines[i].find(columns < 125 ? "+1" : "and 1 more"), std::string::npos) << lines[i];
    }
  }
}

TEST(CliWatch, CountsOneLock) {
  watch_view view;
  lock_status s;
  s.kind = lock_status::kind_of_lock::shared_mutex;
  s.held = s.taken = 1;
  s.limit = 1'000'000;
  view.look({{"a", s}}, time_point{} + 1s);
  std::vector<std::string> const lines = view.screen(24, 80, {});
  EXPECT_TRUE(lines[0].starts_with("1 lock, 0 waiting")) << lines[0];
  EXPECT_NE(lines[2].find("1 reader "), std::string::npos) << lines[2];
}

TEST(CliWatch, NamesTheHolderByItsLabelAndNote) {
  watch_view view;
  lock_status s;
  s.held = s.taken = s.limit = 3;
  s.kind = lock_status::kind_of_lock::semaphore;
  s.holders.push_back(
      {.client = "0123456789abcdef0123456789abcdef", .label = "billing@pod-7:4711", .note = "order 17"});
  watch_view::statuses one{{"stock", s}};
  view.look(one, time_point{} + 1s);
  EXPECT_TRUE(view.screen(24, 160, {})[2].ends_with("billing@pod-7:4711 (order 17) and 2 more"))
      << view.screen(24, 160, {})[2];
  EXPECT_TRUE(view.screen(24, 80, {})[2].ends_with("billing@po +2")) << view.screen(24, 80, {})[2];
}

TEST(DoctorChecks, OfLabels) {
  EXPECT_EQ(judge_label("conch@pod-7:4711", "conch@pod-7:4711").how, verdict::ok);
  finding const refused = judge_label("conch@pod-7:4711", "");
  EXPECT_EQ(refused.how, verdict::warning);
  EXPECT_NE(refused.advice.find("KEY_PREFIX{*}:i"), std::string::npos);
}

TEST(DoctorChecks, OfHandOvers) {
  EXPECT_EQ(judge_hand_over(300us, 100us).how, verdict::ok);
  EXPECT_EQ(judge_hand_over(80ms, 1ms).how, verdict::warning);
}

TEST(DoctorChecks, OfServersThatAreOne) {
  EXPECT_EQ(judge_distinct({{"a", "1"}, {"b", "2"}, {"c", "3"}}, 2).how, verdict::ok);
  EXPECT_EQ(judge_distinct({{"a", ""}, {"b", ""}}, 2).how, verdict::ok) << "they do not tell";
  EXPECT_EQ(judge_distinct({{"a", "1"}}, 2).how, verdict::bad) << "the others are away";
  EXPECT_EQ(judge_distinct({}, 2).how, verdict::bad);
  finding const still = judge_distinct({{"a", "1"}, {"b", "2"}, {"c", "1"}}, 2);
  EXPECT_EQ(still.how, verdict::warning);
  EXPECT_NE(still.words.find("c is the same server as a"), std::string::npos) << still.words;
  EXPECT_EQ(judge_distinct({{"a", "1"}, {"b", "1"}, {"c", "1"}}, 2).how, verdict::bad);
  EXPECT_EQ(judge_distinct({{"a", "1"}, {"b", "2"}, {"c", "1"}}, 3).how, verdict::bad) << "votes_needed";
}

TEST(CliMeasure, Quantiles) {
  std::vector<duration> all;
  for (int i = 100; i >= 1; --i) all.emplace_back(i * 1ms);
  EXPECT_EQ(quantile(all, 0.5), duration{51ms});
  EXPECT_EQ(quantile(all, 0.99), duration{100ms});
  EXPECT_EQ(quantile({1ms}, 0.5), duration{1ms});
}

}  // namespace
}  // namespace conch::cli
