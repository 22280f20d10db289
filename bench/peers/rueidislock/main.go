// rueidislock as its README recommends for one Redis of 7.0.5 or newer; only the lease is conch's.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const (
	lease    = 30 * time.Second
	patience = 3 * time.Second
)

var gaveUp atomic.Int64

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "rueidislock:", err)
		os.Exit(1)
	}
}

// monotonic is the same clock in all processes.
func monotonic() int64 {
	var now syscall.Timespec
	const clockMonotonic = 1
	_, _, failure := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if failure != 0 {
		check(failure)
	}
	return now.Nano()
}

type locker struct{ rueidislock.Locker }

func connect(port string) locker {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + port}},
		KeyPrefix:      "rueidislock",
		KeyValidity:    lease,
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	check(err)
	return locker{l}
}

// mutex gives the lock the shape of redsync's.
type mutex struct {
	by     locker
	name   string
	cancel context.CancelFunc
}

func (l locker) mutex(name string) *mutex { return &mutex{by: l, name: name} }

func acquire(m *mutex) { acquireUntil(context.Background(), m) }

// acquireUntil answers false if the context ended first.
func acquireUntil(ctx context.Context, m *mutex) bool {
	_, cancel, err := m.by.WithContext(ctx, m.name)
	if err != nil && ctx.Err() != nil {
		return false
	}
	check(err)
	m.cancel = cancel
	return true
}

func release(m *mutex) { m.cancel() }

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: rueidislock WORKLOAD PORT TASKS")
		os.Exit(2)
	}
	workload, port := os.Args[1], os.Args[2]
	tasks, err := strconv.Atoi(os.Args[3])
	check(err)

	one := connect(port)
	var many []locker
	if workload == "drain" {
		for range tasks {
			many = append(many, connect(port))
		}
	}
	held := one.mutex(workload)
	var drained sync.WaitGroup
	output := bufio.NewWriter(os.Stdout)
	say := func(format string, values ...any) {
		fmt.Fprintf(output, format+"\n", values...)
		output.Flush()
	}
	say("ready")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		switch words[0] {
		case "go":
			seconds, err := strconv.ParseFloat(words[1], 64)
			check(err)
			until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
			gaveUp.Store(0)
			// A waiter of this library can be left behind for ever when all go home: it is counted, not waited for.
			patient, stop := context.WithCancel(context.Background())
			timer := time.AfterFunc(time.Until(until.Add(patience)), stop)
			holds := make([]int, tasks)
			waits := make([][]float64, tasks)
			var all sync.WaitGroup
			for i := range tasks {
				all.Add(1)
				go func() {
					defer all.Done()
					name := workload
					if workload == "uncontended" {
						name += ":" + strconv.Itoa(i)
					}
					m := one.mutex(name)
					for {
						begin := time.Now()
						served := acquireUntil(patient, m)
						now := time.Now()
						if workload == "contended" {
							waits[i] = append(waits[i], float64(now.Sub(begin).Nanoseconds())/1e3)
						}
						if !served {
							gaveUp.Add(1)
							return
						}
						release(m)
						if !now.Before(until) {
							return
						}
						holds[i]++
					}
				}()
			}
			all.Wait()
			timer.Stop()
			stop()
			for i := range tasks {
				fmt.Fprint(output, "task ", holds[i])
				for _, wait := range waits[i] {
					fmt.Fprintf(output, " %.1f", wait)
				}
				fmt.Fprintln(output)
			}
			say("done %d", gaveUp.Load())
		case "acquire", "wait":
			acquire(held)
			say("took %d", monotonic())
		case "release":
			at := monotonic()
			release(held)
			say("released %d", at)
		case "arm":
			acquire(held)
			for i := range tasks {
				drained.Add(1)
				go func() {
					defer drained.Done()
					m := many[i].mutex(workload)
					acquire(m)
					release(m)
				}()
			}
			say("armed")
		case "drain":
			begin := time.Now()
			release(held)
			drained.Wait()
			say("drained %d", time.Since(begin).Microseconds())
		}
	}
}
