package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// scene returns n machines in all steps of the plan, with a dead leader.
func scene(n int) view {
	v := view{
		Elapsed: 4200 * time.Millisecond,
		Steps:   []string{"set-netboot", "reboot-to-netboot", "repave-image", "join-cluster", "verify-in-cluster"},
		Peers:   []peerView{{ID: "n1", State: killed}, {ID: "n2", State: up}, {ID: "n3", State: up, Leader: true}},
		Events: []event{
			{Text: "starting n1, n2, n3, three processes on loopback"},
			{At: 900 * time.Millisecond, Kind: good, Text: "three peers are up, n1 leads"},
			{At: 1800 * time.Millisecond, Kind: warning, Text: "m-03 reboot-to-netboot: power_on: BMC answered 500 (attempt 1)"},
			{At: 2300 * time.Millisecond, Kind: bad, Text: "leader n1 killed with SIGKILL at 22 of 60 steps"},
			{At: 2400 * time.Millisecond, Kind: good, Text: "n3 leads: writes paused for 38 ms"},
		},
	}
	for i := range n {
		m := machineView{ID: fmt.Sprintf("m-%02d", i+1), Phase: holdfastv1.Run_RUNNING, Attempt: 1}
		switch i % 8 {
		case 0:
			m.Phase, m.Done, m.Took = holdfastv1.Run_SUCCEEDED, 5, 3100*time.Millisecond
		case 1:
			m.Phase, m.Done, m.Error = holdfastv1.Run_FAILED, 2, "install failed: disk is on fire"
		case 2:
			m.Done, m.Failure, m.Retries = 1, "power_on: BMC answered 500", 1
		case 3:
			m.Done, m.Attempt, m.Retries = 1, 2, 1
		case 4:
			m.Done, m.Adopted = 2, true
		case 5:
			m.Phase, m.Attempt = holdfastv1.Run_PENDING, 0
		case 6:
			m.Phase, m.Attempt = holdfastv1.Run_PHASE_UNSPECIFIED, 0
		case 7:
			m.Done = 4
		}
		if m.Done < 5 && m.Phase != holdfastv1.Run_PHASE_UNSPECIFIED {
			m.Step = v.Steps[m.Done]
		}
		v.Machines = append(v.Machines, m)
		v.Done += m.Done
		if m.ended() {
			v.Ended++
		}
	}
	return v
}

func TestFrame(t *testing.T) {
	begin := view{Peers: []peerView{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}}}
	electing := scene(8)
	electing.Peers[2].Leader = false
	tests := []struct {
		name          string
		v             view
		width, height int
		g             glyphs
		colour        bool
	}{
		{"begin-79x24", begin, 79, 24, unicodeGlyphs(), false},
		{"rows-79x24", scene(12), 79, 24, unicodeGlyphs(), false},
		{"rows-colour-79x24", scene(8), 79, 24, unicodeGlyphs(), true},
		{"rows-ascii-79x24", electing, 79, 24, asciiGlyphs(), false},
		{"two-columns-79x24", scene(24), 79, 24, unicodeGlyphs(), false},
		{"rows-wide-140x40", scene(24), 140, 40, unicodeGlyphs(), false},
		{"crowd-79x24", scene(300), 79, 24, unicodeGlyphs(), false},
		{"crowd-ascii-79x24", scene(100), 79, 24, asciiGlyphs(), false},
		{"crowd-many-to-a-cell-60x14", scene(5000), 60, 14, unicodeGlyphs(), false},
		{"narrow-38x20", scene(8), 38, 20, unicodeGlyphs(), false},
		{"short-79x10", scene(12), 79, 10, unicodeGlyphs(), false},
		{"slit-79x5", scene(12), 79, 5, unicodeGlyphs(), false},
		{"slit-79x2", scene(12), 79, 2, unicodeGlyphs(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			golden(t, "frame-"+tt.name+".txt", text(frame(tt.v, tt.width, tt.height, tt.g), tt.width, tt.g, tt.colour))
		})
	}
}

// On any terminal, the picture is not empty and leaves a line for the cursor.
func TestFrameFits(t *testing.T) {
	for _, n := range []int{0, 1, 5, 12, 24, 25, 500, 5000} {
		v := scene(n)
		for width := 1; width < 150; width += 7 {
			for height := 1; height < 60; height++ {
				lines := frame(v, width, height, unicodeGlyphs())
				if len(lines) > max(height-1, 1) || len(lines) == 0 {
					t.Fatalf("%d machines at %dx%d: got %d lines", n, width, height, len(lines))
				}
				for _, l := range lines {
					if got := columns(cut(l, width, unicodeGlyphs())); got > width {
						t.Fatalf("%d machines at %dx%d: got a line of %d columns: %v", n, width, height, got, l)
					}
				}
			}
		}
	}
}

func TestCrowdShowsAll(t *testing.T) {
	v := scene(200)
	lines := crowd(v, 50, 20, asciiGlyphs())
	cells := lines[len(v.Steps)+3:]
	got := len(strings.Join(strings.Fields(text(cells, 50, asciiGlyphs(), false)), ""))
	if got != 200 {
		t.Errorf("crowd of 200 machines: got %d cells", got)
	}
}
