// What a child of a fork finds in place of its parent's connections.
#include "base/process.hpp"

#include "base/fork_safe_mutex.hpp"
#include "support/in_child.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

namespace conch {
namespace {

using test::is_so_in_child;

bool is_close_on_exec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

/// Two ends of a connection.
struct connected_pair {
  connected_pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0); }
  connected_pair(connected_pair const&) = delete;
  connected_pair& operator=(connected_pair const&) = delete;
  ~connected_pair() {
    for (int const fd : ends) ::close(fd);
  }
  std::array<int, 2> ends{-1, -1};
};

TEST(Process, AChildHasAnotherNumberAndSoHasItsOwnChild) {
  std::uint64_t const mine = this_process();
  made_here const here;
  EXPECT_EQ(this_process(), mine);
  EXPECT_TRUE(here.is_here());
  EXPECT_TRUE(is_so_in_child([&] {
    std::uint64_t const childs = this_process();
    made_here const there;
    return childs != mine && !here.is_here() && there.is_here() &&
           is_so_in_child([&] { return this_process() != childs && this_process() != mine; });
  }));
  EXPECT_EQ(this_process(), mine);
}

TEST(Process, AChildReachesNobodyThroughADescriptorOfItsParent) {
  connected_pair p;
  own_descriptor own;
  own.is(p.ends[0]);
  ASSERT_EQ(::send(p.ends[1], "ab", 2, 0), 2);
  EXPECT_TRUE(is_so_in_child([&] {
    char room[2];
    bool const reads = ::recv(p.ends[0], room, 1, 0) > 0;
    bool const writes = ::send(p.ends[0], "x", 1, MSG_NOSIGNAL) > 0;
    return !reads && !writes && is_close_on_exec(p.ends[0]);
  }));
  char room[2];
  EXPECT_EQ(::recv(p.ends[0], room, 2, 0), 2) << "the child has taken nothing";
  EXPECT_EQ(::recv(p.ends[1], room, 2, 0), -1) << "nor sent anything";
  EXPECT_EQ(::send(p.ends[0], "c", 1, 0), 1) << "and the connection stands";
}

TEST(Process, WhatAnotherFileHasTheNumberOfStaysInTheChild) {
  connected_pair p, other;
  own_descriptor own;
  own.is(p.ends[0]);
  ASSERT_EQ(::dup2(other.ends[0], p.ends[0]), p.ends[0]);  // as after a close that nobody told of
  ASSERT_EQ(::send(other.ends[1], "a", 1, 0), 1);
  EXPECT_TRUE(is_so_in_child([&] {
    char room;
    return ::recv(p.ends[0], &room, 1, 0) == 1;
  }));
}

TEST(Process, ADescriptorThatIsForgottenStaysInTheChild) {
  connected_pair p, next;
  auto own = std::make_unique<own_descriptor>();
  own->is(p.ends[0]);
  own->is(next.ends[0]);
  auto const reaches = [](int fd) { return [fd] { return ::send(fd, "x", 1, MSG_NOSIGNAL) == 1; }; };
  EXPECT_TRUE(is_so_in_child(reaches(p.ends[0])));
  EXPECT_FALSE(is_so_in_child(reaches(next.ends[0])));
  own.reset();
  EXPECT_TRUE(is_so_in_child(reaches(next.ends[0])));
}

TEST(Process, AMutexOfTheWholeProcessIsFreeInTheChild) {
  fork_safe_mutex guard;
  std::atomic<bool> over{false};
  std::thread busy{[&] {
    while (!over) std::lock_guard const guarded{guard};
  }};
  for (int i = 0; i < 100; ++i) {
    bool const is_free = is_so_in_child([&] {
      bool const locked = guard.try_lock();
      if (locked) guard.unlock();
      return locked;
    });
    EXPECT_TRUE(is_free);
    if (!is_free) break;
  }
  over = true;
  busy.join();
}

TEST(Process, ASocketIsCloseOnExecFromTheBeginning) {
  int const fd = open_socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(is_close_on_exec(fd));
  ::close(fd);
}

}  // namespace
}  // namespace conch
