// What a command inherits where the system refuses close_range: a kernel without it, a seccomp filter.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "cli/process.hpp"

namespace conch::cli {
namespace {

/// From now on close_range fails with `why` in this process, and in those that it starts.
bool refuse_close_range(unsigned why) {
  sock_filter filter[]{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offsetof(seccomp_data, nr))),
                       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
                       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | why),
                       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program{sizeof filter / sizeof filter[0], filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// In a process of its own: starts a command that looks at its descriptors. 0: it has 9, which was passed on, and not
/// 8, which was not.
int inherited_where_close_range_fails(unsigned why) {
  pid_t const tester = ::fork();
  if (tester == 0) {
    ::dup2(0, 8);
    ::dup2(0, 9);
    if (!refuse_close_range(why)) ::_exit(100);
    child_options options;
    options.command = {"/bin/sh", "-c",
                       "if (: <&8) 2>/dev/null; then exit 1; fi; if (: <&9) 2>/dev/null; then exit 0; fi; exit 2"};
    options.descriptors = {9};
    guardian const g{clock::now() + std::chrono::hours{1}};
    pid_t const child = start_child(options, terminal{});
    int status = 0;
    ::waitpid(child, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 101);
  }
  int status = 0;
  ::waitpid(tester, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 102;
}

TEST(Descriptors, AreNotInheritedWhereCloseRangeIsRefused) { EXPECT_EQ(inherited_where_close_range_fails(EPERM), 0); }

TEST(Descriptors, AreNotInheritedWhereCloseRangeIsMissing) { EXPECT_EQ(inherited_where_close_range_fails(ENOSYS), 0); }

TEST(Descriptors, AreNotInheritedWhereItsFlagIsUnknown) { EXPECT_EQ(inherited_where_close_range_fails(EINVAL), 0); }

/// The guardian must keep no pipe open: the reader behind `conch run | reader` would never see the end.
TEST(Descriptors, TheGuardianKeepsNone) {
  pid_t const tester = ::fork();
  if (tester == 0) {
    int ends[2];
    if (::pipe(ends) != 0 || !refuse_close_range(EPERM)) ::_exit(100);
    guardian const g{clock::now() + std::chrono::hours{1}};
    ::close(ends[1]);
    char none = 0;
    ::_exit(::read(ends[0], &none, 1) == 0 ? 0 : 1);  // the end of the pipe
  }
  int status = 0;
  ::waitpid(tester, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace conch::cli
