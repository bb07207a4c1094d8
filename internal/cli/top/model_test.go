package top

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestScreen omits the clock, which is in the user's time zone.
func TestScreen(t *testing.T) {
	m := shown(false)
	got := map[string]string{"runs": screen(m)}
	press(m, "2")
	got["attention"] = screen(m)
	press(m, "1", "enter")
	got["run"] = screen(m)
	press(m, "esc", "2", "enter")
	got["machine"] = screen(m)
	press(m, "esc", "?")
	got["help"] = screen(m)
	for name, text := range got {
		text = strings.ReplaceAll(text, clock(now()), "hh:mm:ss")
		file := "testdata/" + name + ".golden"
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), text); diff != "" {
			t.Errorf("%s (-want +got; UPDATE_GOLDEN=1 writes it):\n%s", file, diff)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys []string
		want string // the ids of the rows
		row  string // the selected row
		quit bool
	}{
		{name: "longest step first, waiting runs last", want: "run-1 run-2 run-3", row: "run-1"},
		{name: "down and no further than the end", keys: []string{"down", "j", "down", "down"}, want: "run-1 run-2 run-3",
			row: "run-3"},
		{name: "end and up", keys: []string{"end", "up"}, want: "run-1 run-2 run-3", row: "run-2"},
		{name: "reverse stays at the first row", keys: []string{"r"}, want: "run-2 run-1 run-3", row: "run-2"},
		{name: "reverse keeps the selected row", keys: []string{"down", "r"}, want: "run-2 run-1 run-3", row: "run-2"},
		{name: "sorted by the next columns: step, run, machine", keys: []string{"s", "s", "s", "r"},
			want: "run-2 run-1 run-3", row: "run-2"},
		{name: "search", keys: []string{"/", "M", "-", "2", "enter"}, want: "run-2", row: "run-2"},
		{name: "keys with other meanings in a search", keys: []string{"/", "q", "s"}, want: ""},
		{name: "corrected search", keys: []string{"/", "m", "-", "2", "x", "backspace"}, want: "run-2", row: "run-2"},
		{name: "canceled search", keys: []string{"/", "z", "esc"}, want: "run-1 run-2 run-3", row: "run-1"},
		{name: "search removed later", keys: []string{"/", "2", "enter", "esc"}, want: "run-1 run-2 run-3",
			row: "run-1"},
		{name: "other table, most urgent first", keys: []string{"tab"}, want: "m-7 m-9", row: "m-7"},
		{name: "first table again", keys: []string{"tab", "tab"}, want: "run-1 run-2 run-3", row: "run-1"},
		{name: "quit", keys: []string{"q"}, want: "run-1 run-2 run-3", row: "run-1", quit: true},
		{name: "quit during a search", keys: []string{"/", "ctrl+c"}, want: "run-1 run-2 run-3", row: "run-1",
			quit: true},
		{name: "open and quit", keys: []string{"enter", "q"}, want: "run-1 run-2 run-3", row: "run-1",
			quit: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := shown(false)
			if quit := press(m, tt.keys...); quit != tt.quit {
				t.Errorf("got quit %v, want %v", quit, tt.quit)
			}
			if got := order(m); got != tt.want {
				t.Errorf("got rows %q, want %q", got, tt.want)
			}
			row := m.runList.chosen
			if m.tab == tabIssues {
				row = m.issues.chosen
			}
			if row != tt.row {
				t.Errorf("got selected row %q, want %q", row, tt.row)
			}
		})
	}
}

// The selected row stays selected while others appear and disappear. If it disappears itself, its
// neighbor is selected.
func TestSelectedRowStays(t *testing.T) {
	m := shown(false)
	press(m, "down")
	older := run("run-0", "m-0", holdfastv1.Run_RUNNING, time.Hour, time.Hour)
	send(m, runsMsg{changed: map[string]*holdfastv1.Run{"run-0": older}})
	if got, want := order(m)+": "+m.runList.chosen, "run-0 run-1 run-2 run-3: run-2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	send(m, runsMsg{restart: true, changed: map[string]*holdfastv1.Run{"run-1": m.runs.active["run-1"]}})
	if got, want := order(m)+": "+m.runList.chosen, "run-1: run-1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	press(m, "p")
	send(m, runsMsg{changed: map[string]*holdfastv1.Run{"run-0": older}})
	if got, want := order(m), "run-1"; got != want {
		t.Errorf("paused: got rows %s, want %s", got, want)
	}
}

// An ended run is shown for a moment, and later only on request. It is counted once.
func TestEndedRuns(t *testing.T) {
	at := now()
	m := newModel(func() time.Time { return at }, false)
	send(m, tea.WindowSizeMsg{Width: 120, Height: 24})
	failed := run("run-1", "m-1", holdfastv1.Run_FAILED, time.Minute, 0)
	send(m, runsMsg{changed: someRuns()}, runsMsg{changed: map[string]*holdfastv1.Run{"run-1": failed}},
		runsMsg{changed: map[string]*holdfastv1.Run{"run-1": failed}})
	if got, want := order(m), "run-2 run-3 run-1"; got != want {
		t.Errorf("got rows %q, want %q", got, want)
	}
	wantScreen(t, m, "1 running, 1 pending, 1 failed", "the BMC does not answer")
	at = at.Add(time.Minute)
	send(m, runsMsg{})
	if got, want := order(m), "run-2 run-3"; got != want {
		t.Errorf("later: got rows %q, want %q", got, want)
	}
	press(m, "e")
	if got, want := order(m), "run-2 run-3 run-1"; got != want {
		t.Errorf("on request: got rows %q, want %q", got, want)
	}
}

// While no peer answers, the last figures stay, with the reason. They also stay over a failover,
// whose new leader starts at zero.
func TestLeaderDies(t *testing.T) {
	at := now()
	m := shown(false)
	m.now = func() time.Time { return at }
	at = at.Add(2 * time.Second)
	next := someStatus()
	next.Peers[1].Load = &holdfastv1.PeerLoad{Leases: 300, LeaseRate: 30, Commands: 1100, CommitSeconds: 4.5}
	send(m, statusMsg{status: next})
	wantScreen(t, m, "leader n2", "300, 30/s", "commands 50/s, 5ms each", "connection refused")

	send(m, statusMsg{err: errors.New("deadline exceeded")})
	wantScreen(t, m, "! no peer answers, the last answer is from "+clock(at)+": deadline exceeded", "machines  300",
		"leader n2", "run-1")

	none := proto.CloneOf(next)
	none.Leader, none.FailureTolerance = "", 0
	none.Peers[0].LastContactMs = 7000
	send(m, statusMsg{status: none})
	wantScreen(t, m, "no leader", "none may fail", "! n1 has not heard a leader for 7s", "leases    0, 0.0/s")

	at = at.Add(time.Second)
	next.Leader = "n1"
	next.Peers[0].Load = &holdfastv1.PeerLoad{Leases: 300, Commands: 7}
	send(m, statusMsg{status: next}, runsMsg{err: errors.New("permission denied")})
	wantScreen(t, m, "leader n1", "! runs cannot be followed: permission denied")
	if strings.Contains(screen(m), "commands") {
		t.Errorf("first status of a new leader: got a rate:\n%s", screen(m))
	}
}

// A voter is catching up if it may not vote.
func TestVoters(t *testing.T) {
	for _, tt := range []struct {
		name       string
		may        []bool // n1, n3; n2 is the leader
		catchingUp int
	}{{"all vote", []bool{true, true}, 0}, {"one does not", []bool{true, false}, 1},
		{"none votes", []bool{false, false}, 2}} {
		t.Run(tt.name, func(t *testing.T) {
			st := someStatus()
			st.Peers[0].MayVote, st.Peers[2].MayVote, st.Peers[2].Error = tt.may[0], tt.may[1], ""
			st.Peers[1].MayVote = tt.may[0]
			m := shown(false)
			send(m, statusMsg{status: st})
			if got := strings.Count(screen(m), "does not vote yet"); got != tt.catchingUp {
				t.Errorf("got %d peers catching up, want %d:\n%s", got, tt.catchingUp, screen(m))
			}
		})
	}
}

func TestColors(t *testing.T) {
	if s := screen(shown(false)); strings.Contains(s, "\x1b") {
		t.Errorf("without colors: got escape sequences:\n%q", s)
	}
	if s := screen(shown(true)); !strings.Contains(s, "\x1b[32mleader n2\x1b[0m") {
		t.Errorf("with colors: got none:\n%q", s)
	}
}

// For any keys, size and data, the screen fits the terminal, and a row is selected if there is one.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := shown(false)
		for _, what := range rapid.SliceOfN(rapid.IntRange(0, 6), 1, 30).Draw(t, "steps") {
			switch what {
			case 0:
				send(m, tea.WindowSizeMsg{Width: rapid.IntRange(1, 200).Draw(t, "width"),
					Height: rapid.IntRange(1, 60).Draw(t, "height")})
			case 1:
				id := rapid.StringMatching(`run-[0-9]{1,2}`).Draw(t, "id")
				phase := rapid.SampledFrom([]holdfastv1.Run_Phase{holdfastv1.Run_PENDING, holdfastv1.Run_RUNNING,
					holdfastv1.Run_FAILED}).Draw(t, "phase")
				send(m, runsMsg{restart: rapid.Bool().Draw(t, "restart"),
					changed: map[string]*holdfastv1.Run{id: run(id, "m-"+id, phase, time.Minute, time.Second)}})
			case 2:
				send(m, statusMsg{err: errors.New("no peer answers")})
			default:
				press(m, rapid.SampledFrom([]string{"up", "down", "pgup", "pgdown", "home", "end", "tab", "s", "r", "/", "esc",
					"enter", "e", "p", "?", "1", "m"}).Draw(t, "key"))
			}
			fits(t, m)
		}
		if rows := m.runList.rows; len(rows) > 0 && m.runList.chosen == "" {
			t.Fatalf("got no selected row of %d", len(rows))
		}
	})
}
