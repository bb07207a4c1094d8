package machineapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sameAsJSON compares ReadQuick with encoding/json, and reports whether ReadQuick accepted
// the body.
func sameAsJSON(t interface {
	Helper()
	Errorf(format string, args ...any)
}, body []byte) bool {
	t.Helper()
	var got, want keepalive
	if !got.ReadQuick(body) {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q was not taken, and has left something:\n%s", body, diff)
		}
		return false
	}
	if err := json.Unmarshal(body, &want); err != nil {
		t.Errorf("%q was taken: encoding/json says %v", body, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q (-encoding/json +got):\n%s", body, diff)
	}
	return true
}

const (
	plainBeat = `{"machine_id":"m-1","provider_name":"generic","pool_name":"gpu","agent_version":"0.1.0"}`
	fullBeat  = ` { "machine_id" : "m-1" , "pool_name":" gpu ","metrics":{"cpu_utilization_pct":12.5,"memory_utilization_pct":-0.50,"total_cpu_available":64000,"total_memory_available":17179869184,"free_gpu_count":0}}` + "\r\n"
)

// TestReadQuick: the usual form is accepted; everything else is left to encoding/json.
func TestReadQuick(t *testing.T) {
	for body, want := range map[string]bool{
		plainBeat: true, fullBeat: true, `{}`: true, "\t{ }": true, `{"metrics":{}}`: true,
		`{"machine_id":"a","machine_id":"b"}`:                                  true,
		`{"metrics":{"free_gpu_count":1},"metrics":{"total_cpu_available":2}}`: true,
		`{"metrics":{"free_gpu_count":9007199254740992}}`:                      true,
		`{"metrics":{"free_gpu_count":9007199254740994}}`:                      false,
		``: false, `null`: false, `[]`: false, `{`: false, `{}{}`: false, `{"machine_id"}`: false, `{"machine_id":}`: false,
		`{"machine_id":"a",}`: false, `{,}`: false,
		`{"machine_id":7}`: false, `{"machine_id":null}`: false, `{"machine_id":"\u0061"}`: false,
		`{"machine_id":"ä"}`: false, `{"machine_id":"a`: false,
		`{"Machine_ID":"a"}`: false, `{"x":1}`: false, `{"metrics":null}`: false, `{"metrics":7}`: false,
		`{"metrics":{"x":1}}`: false, "{\"machine_id\":\"a\tb\"}": false,
		`{"metrics":{"free_gpu_count":"1"}}`: false, `{"metrics":{"free_gpu_count":01}}`: false,
		`{"metrics":{"free_gpu_count":1.}}`: false, `{"metrics":{"free_gpu_count":.5}}`: false,
		`{"metrics":{"free_gpu_count":-}}`: false, `{"metrics":{"free_gpu_count":+1}}`: false,
		`{"metrics":{"free_gpu_count":1e3}}`: false, `{"metrics":{"free_gpu_count":0x1}}`: false,
	} {
		if got := sameAsJSON(t, []byte(body)); got != want {
			t.Errorf("%s: taken %v, want %v", body, got, want)
		}
	}
}

// TestReadQuickLikeJSON: any combination of a keepalive's parts is decoded as encoding/json
// does, or left to it.
func TestReadQuickLikeJSON(t *testing.T) {
	pieces := []string{`{`, `}`, `[`, `]`, `:`, `,`, ` `, "\n", `"`, `\`, `null`, `true`, `-`, `.`, `e5`, `0`, `17`,
		"\x00", "ä", `\u0061`, `<`,
		`"machine_id"`, `"pool_name"`, `"metrics"`, `"free_gpu_count"`, `"cpu_utilization_pct"`, `"x"`, `""`, `" a "`,
		`"machine_id":"m-1"`, `"metrics":{"free_gpu_count":1.5}`}
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		var body string
		if rapid.Bool().Draw(t, "torn") {
			body = strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces"), "")
		} else {
			var members []string
			for range rapid.IntRange(0, 5).Draw(t, "members") {
				name := rapid.SampledFrom([]string{"machine_id", "provider_name", "pool_name", "agent_version", "metrics",
					"METRICS", "x"}).Draw(t, "name")
				value := rapid.OneOf(
					rapid.Map(rapid.String(), func(s string) string { b, _ := json.Marshal(s); return string(b) }),
					rapid.Map(rapid.StringMatching(`[ -~]{0,8}`), func(s string) string { return `"` + s + `"` }),
					rapid.Map(rapid.Float64(),
						func(f float64) string { return fmt.Sprintf(`{"free_gpu_count":%v,"total_cpu_available":%.3f}`, f, f) }),
					rapid.Just(`{}`), rapid.Just(`null`), rapid.Just(`7`),
				).Draw(t, "value")
				members = append(members, fmt.Sprintf("%q:%s", name, value))
			}
			body = "{" + strings.Join(members, ",") + "}"
		}
		if sameAsJSON(t, []byte(body)) {
			taken++
		}
	})
	if !testing.Short() && taken < 5 { // rapid tries only 20 bodies in the short form
		t.Errorf("%d bodies were taken: this proves little", taken)
	}
}

// TestAppendJSON: the response equals that of encoding/json, byte for byte.
func TestAppendJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := func(name string) string {
			return rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,12}`),
				rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, name)
		}
		n := func(name string) int64 {
			return rapid.SampledFrom([]int64{0, 1, -1, 300, 60_000, 1 << 62}).Draw(t, name)
		}
		a := &alive{Status: s("status"), NextKeepaliveMS: n("next"), MachineState: machineState{
			MachineID: s("id"), Status: s("state"), PoolName: s("pool"), LastKeepalive: s("last"), TTLSeconds: n("ttl"),
			AgentVersion: s("version")}}
		var want bytes.Buffer
		if err := json.NewEncoder(&want).Encode(a); err != nil {
			t.Fatal(err)
		}
		if got := string(append(a.AppendJSON(nil), '\n')); got != want.String() {
			t.Errorf("got  %s\nwant %s", got, want.String())
		}
	})
}

// FuzzReadQuick sends arbitrary bodies: they are decoded as encoding/json does, or left to
// it.
func FuzzReadQuick(f *testing.F) {
	for _, body := range []string{plainBeat, fullBeat, `{"metrics":{"free_gpu_count":-0.0}}`, `{"machine_id":"\u0061"}`,
		`{"x":[{}]}`, `{}{}`, ``} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { sameAsJSON(t, body) })
}
