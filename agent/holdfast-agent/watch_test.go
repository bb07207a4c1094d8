package main

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/client/sdnotify"
)

func testLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A hanging process does not feed the watchdog.
func TestWatchdogIsOnlyFedByProgress(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	notify := sdnotify.New(func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "60000"}[name]
	}, 1)
	for _, tt := range []struct {
		name string
		ago  time.Duration
		fed  bool
	}{{"works", time.Second, true}, {"hangs", time.Hour, false}} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		reports := make(chan struct{}, 100)
		w := watch{notify: notify, log: testLogger(), report: func() report {
			select {
			case reports <- struct{}{}:
			default:
			}
			return report{line: tt.name, progress: time.Now().Add(-tt.ago), patience: time.Minute}
		}}
		go func() { done <- w.run(ctx) }()
		for range 5 {
			<-reports
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var all []string
		for b := make([]byte, 4096); ; {
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := conn.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(b[:n]))
			if string(b[:n]) == sdnotify.Stopping {
				break
			}
		}
		text := strings.Join(all, " ")
		if fed := strings.Contains(text, sdnotify.Watchdog); fed != tt.fed || !strings.Contains(text, "STATUS="+tt.name) {
			t.Errorf("%s: got notification %q, want the watchdog fed: %v", tt.name, text, tt.fed)
		}
	}
}

// A process that was stopped for a while does not treat its own stop as a hang.
func TestWatchAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		progress := time.Now()
		var asleep atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		w := watch{log: slog.New(slog.NewTextHandler(&log, nil)), report: func() report {
			if asleep.Swap(false) {
				time.Sleep(time.Hour) // sleep: like SIGSTOP of the whole process
			}
			return report{progress: progress, patience: 5 * time.Minute}
		}}
		done := make(chan error, 1)
		go func() { done <- w.run(ctx) }()
		synctest.Wait()
		asleep.Store(true)
		time.Sleep(time.Hour + time.Minute) // sleep: fake clock
		synctest.Wait()
		if log.String() != "" {
			t.Errorf("after a stop: got %s", &log)
		}
		time.Sleep(10 * time.Minute) // sleep: fake clock
		synctest.Wait()
		if got := strings.Count(log.String(), "no progress"); got != 1 {
			t.Errorf("ten minutes without progress: got %d log lines:\n%s", got, &log)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
