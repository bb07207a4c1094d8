package smi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseGPUs(t *testing.T) {
	tests := []struct {
		name, text string
		want       []GPU
		bad        bool
	}{
		{"two", "0, GPU-aaaa, NVIDIA GeForce RTX 4090, 24564, 8192, 65, 8.9\n1, GPU-bbbb, NVIDIA H100 80GB HBM3, " +
			"81559, 81000, 34, 9.0\n", []GPU{
			{Index: 0, UUID: "GPU-aaaa", Model: "GeForce RTX 4090", TotalVRAMMiB: new(int64(24564)),
				FreeVRAMMiB:        new(int64(8192)),
				TemperatureCelsius: new(int64(65)), ComputeCapability: "8.9"},
			{Index: 1, UUID: "GPU-bbbb", Model: "H100 80GB HBM3", TotalVRAMMiB: new(int64(81559)),
				FreeVRAMMiB:        new(int64(81000)),
				TemperatureCelsius: new(int64(34)), ComputeCapability: "9.0"},
		}, false},
		{"an old driver", "0, GPU-aaaa, Tesla K80, 11441, 11441, 30\n",
			[]GPU{{UUID: "GPU-aaaa", Model: "Tesla K80", TotalVRAMMiB: new(int64(11441)),
				FreeVRAMMiB:        new(int64(11441)),
				TemperatureCelsius: new(int64(30))}}, false},
		{"unknown values", "0, GPU-aaaa, NVIDIA GB10, [N/A], [Not Supported], [N/A], [N/A]\n",
			[]GPU{{UUID: "GPU-aaaa", Model: "GB10"}}, false},
		{"none", "No devices were found\n", nil, false},
		{"nothing", "", nil, false},
		{"a failure", "Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error\n", nil, true},
		{"one lost of two", "0, GPU-aaaa, Tesla K80, 11441, 11441, 30\n" +
			"Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error\n",
			[]GPU{{UUID: "GPU-aaaa", Model: "Tesla K80", TotalVRAMMiB: new(int64(11441)),
				FreeVRAMMiB:        new(int64(11441)),
				TemperatureCelsius: new(int64(30))}}, false},
		{"no index", "x, GPU-aaaa, a, 1, 1, 1, 1\n", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseGPUs(tt.text)
			if (err != nil) != tt.bad {
				t.Fatalf("parseGPUs: %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" && !tt.bad {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}

// program writes a script that replaces nvidia-smi.
func program(t *testing.T, script string) Ask {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Program(path)
}

func TestQuery(t *testing.T) {
	want := []GPU{
		{Index: 0, UUID: "GPU-aaaa", Model: "GeForce RTX 4090", TotalVRAMMiB: new(int64(24564)),
			FreeVRAMMiB:        new(int64(8192)),
			TemperatureCelsius: new(int64(65)), ComputeCapability: "8.9", PIDs: []int{101, 102}},
		{Index: 1, UUID: "GPU-bbbb", Model: "GeForce RTX 4090", TotalVRAMMiB: new(int64(24564)),
			FreeVRAMMiB:        new(int64(24564)),
			TemperatureCelsius: new(int64(30)), ComputeCapability: "8.9"},
	}
	got, err := query(t.Context(), program(t, `
case "$1 $2" in
"--query-gpu=index,uuid,name,memory.total,memory.free,temperature.gpu,compute_cap --format=csv,noheader,nounits")
	echo "0, GPU-aaaa, NVIDIA GeForce RTX 4090, 24564, 8192, 65, 8.9"
	echo "1, GPU-bbbb, NVIDIA GeForce RTX 4090, 24564, 24564, 30, 8.9" ;;
"--query-compute-apps=gpu_uuid,pid --format=csv,noheader,nounits")
	echo "GPU-aaaa, 101"
	echo "GPU-aaaa, 102"
	echo "GPU-cccc, 103"
	echo "GPU-bbbb, [N/A]" ;;
*) exit 2 ;;
esac`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
}

func TestQueryOfOldDriver(t *testing.T) {
	got, err := query(t.Context(), program(t, `
case "$1" in
*compute_cap) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;;
--query-gpu=*) echo "0, GPU-aaaa, Tesla K80, 11441, 11441, 30" ;;
*) echo "No running processes found" ;;
esac`))
	if err != nil || len(got) != 1 || got[0].Model != "Tesla K80" {
		t.Errorf("query: got %+v, %v, want a K80", got, err)
	}
}

func TestQueryFails(t *testing.T) {
	ask := program(t, "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver' >&2\nexit 9\n")
	if got, err := query(t.Context(), ask); err == nil || !strings.Contains(err.Error(), "could not communicate") {
		t.Errorf("query: got %v, %v, want the text of the program", got, err)
	}
	// Another run is allowed.
	if _, err := query(t.Context(), ask); err == nil || strings.Contains(err.Error(), "hangs") {
		t.Errorf("then: %v", err)
	}
}

// A hanging program is killed when the context ends. Until then, no second one is started.
func TestHangingProgram(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	ask := program(t, "touch "+started+"\nexec sleep 1000\n")
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := ask(ctx)
		first <- err
	}()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := os.Stat(started); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("wait for the start of the program: timed out")
		}
		time.Sleep(5 * time.Millisecond) // sleep: between two polls
	}
	if _, err := ask(t.Context()); err == nil || !strings.Contains(err.Error(), "an earlier run still hangs") {
		t.Errorf("second run: got %v", err)
	}
	cancel()
	select {
	case err := <-first:
		if err == nil {
			t.Error("killed run: got no error")
		}
	case <-time.After(10 * time.Second):
		t.Error("wait for the end of the killed run: timed out")
	}
}

func TestMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var broken error
		asked := 0
		m := NewMonitor(func(_ context.Context, args ...string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			if strings.HasPrefix(args[0], "--query-gpu=") {
				return fmt.Sprintf("0, GPU-aaaa, NVIDIA H100, 81559, %d, 30, 9.0\n", 1000*asked), broken
			}
			return "", broken
		}, slog.New(slog.DiscardHandler))
		if got, err := m.GPUs(); err == nil {
			t.Errorf("before the first query: got %v, want an error", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		synctest.Wait()
		if got, err := m.GPUs(); err != nil || len(got) != 1 || *got[0].FreeVRAMMiB != 1000 {
			t.Errorf("GPUs: got %+v, %v", got, err)
		}
		lost := errors.New("a GPU is lost")
		mu.Lock()
		broken = lost
		mu.Unlock()
		time.Sleep(Fresh) // sleep: fake clock
		if got, err := m.GPUs(); err != nil || len(got) != 1 {
			t.Errorf("after failed queries, fresh result: got %+v, %v", got, err)
		}
		time.Sleep(time.Second) // sleep: fake clock
		if got, err := m.GPUs(); !errors.Is(err, lost) {
			t.Errorf("after failed queries, old result: got %+v, %v, want the error", got, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("0, GPU-aaaa, NVIDIA H100, 81559, 1, 30, 9.0\n", "GPU-aaaa, 17\n")
	f.Add("\"", "No running\n,\n")
	f.Fuzz(func(t *testing.T, gpus, programs string) {
		got, err := parseGPUs(gpus)
		if err != nil {
			return
		}
		_ = addPrograms(got, programs)
		for _, g := range got {
			if f, all := g.FreeVRAMMiB, g.TotalVRAMMiB; g.Index < 0 || f != nil && (*f < 0 || all != nil && *f > *all) {
				t.Errorf("%q: %+v", gpus, g)
			}
		}
	})
}
