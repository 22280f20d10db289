// redsync as it is recommended: go-redis pools, its own numbers of tries and delays; only the lease is conch's.
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

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const lease = 30 * time.Second

var gaveUp atomic.Int64

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "redsync:", err)
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

type locker struct{ *redsync.Redsync }

func connect(port string) locker {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	check(client.Ping(context.Background()).Err())
	return locker{redsync.New(goredis.NewPool(client))}
}

func (l locker) mutex(name string) *redsync.Mutex {
	return l.NewMutex("redsync:"+name, redsync.WithExpiry(lease))
}

func acquire(m *redsync.Mutex) {
	for m.Lock() != nil {
		gaveUp.Add(1)
	}
}

func release(m *redsync.Mutex) {
	_, err := m.Unlock()
	check(err)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: redsync WORKLOAD PORT TASKS")
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
						acquire(m)
						now := time.Now()
						if workload == "contended" {
							waits[i] = append(waits[i], float64(now.Sub(begin).Nanoseconds())/1e3)
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
