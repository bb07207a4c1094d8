package machineapi

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		in   string
		cpu  int64 // -1: refused
		memo int64
	}{
		{"8000m", 8000, -1}, {"8", 8, 8}, {"0", 0, 0}, {"16Gi", -1, 16384}, {"512Mi", -1, 512}, {"2048Ki", -1,
			2}, {"1023Ki", -1, 0}, {"", -1, -1}, {"m", -1, -1}, {"Gi", -1, -1},
		{"-1", -1, -1}, {"1.5", -1, -1}, {"1e3", -1, -1}, {"16GiMi", -1, -1}, {"16G", -1, -1}, {"1099511627776", 1 << 40,
			1 << 40}, {"1099511627777", -1, -1}, {"9223372036854775808", -1, -1}, {"8mm", -1, -1},
	} {
		for what, got := range map[string]struct {
			want int64
			f    func(string) (int64, error)
		}{"cpu": {tt.cpu, millicores}, "memory": {tt.memo, mebibytes}} {
			n, err := got.f(tt.in)
			if got.want < 0 && err == nil || got.want >= 0 && (err != nil || n != got.want) {
				t.Errorf("%s %q: got %d, %v, want %d", what, tt.in, n, err, got.want)
			}
		}
	}
	for in, want := range map[number]int64{0: 0, 16384: 16384, manyMiB - 1: manyMiB - 1, 17179869184: 16384} {
		if got := memoryMiB(in); got != want {
			t.Errorf("memory of %v: got %d MiB, want %d", in, got, want)
		}
	}
}

// FuzzUnits: accepted values are within bounds.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{"8000m", "8", "16Gi", "512Mi", "2048Ki", "1099511627776Gi", "-1", "9223372036854775807Gi"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := millicores(s); err == nil && (n < 0 || n > maxCount) {
			t.Errorf("%q: got %d millicores", s, n)
		}
		if n, err := mebibytes(s); err == nil && (n < 0 || n > maxCount<<10) {
			t.Errorf("%q: got %d MiB", s, n)
		}
		var m metric
		if err := m.UnmarshalJSON([]byte(s)); err != nil {
			t.Errorf("%q: got %v, want any metric accepted", s, err)
		}
		out, _ := (&metrics{CPUUtilization: m, TotalMemory: m}).bounded()
		if pct := out.GetCpuUtilizationPct(); !(pct >= 0 && pct <= 100) || out.GetTotalMemoryAvailable() < 0 {
			t.Errorf("%q: got metrics %v", s, out)
		}
	})
}

// TestUnavailable checks that the message of a 503 gives the outcome of the request.
func TestUnavailable(t *testing.T) {
	for reason, want := range map[string]string{"NO_LEADER": "no leader", "NOT_APPLIED": "before it received the request",
		"SHUTTING_DOWN": "shutting down", "OUTCOME_UNKNOWN": "outcome of the request is unknown", "": "outcome is unknown"} {
		st, err := status.New(codes.Unavailable, "cause").WithDetails(&errdetails.ErrorInfo{Reason: reason})
		if err != nil {
			t.Fatal(err)
		}
		a, w := &api{log: slog.New(slog.DiscardHandler)}, httptest.NewRecorder()
		a.fail(w, st.Err(), failure{Message: "other"})
		var got failure
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusServiceUnavailable ||
			!strings.Contains(got.Message, want) || !strings.HasPrefix(got.Suggestion, "Repeat the request") {
			t.Errorf("%s: got %d %+v, %v, want %q", reason, w.Code, got, err, want)
		}
	}
}
