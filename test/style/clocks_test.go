package style

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hostTimes lists the files that may write the host's clock into a message, with the reason. A
// wrong clock of one host must not date a record.
func hostTimes() map[string]string {
	return map[string]string{
		"cluster/internal/propose/committer.go":     "the time of a command, which the recorded clock limits",
		"cluster/internal/clockcheck/clockcheck.go": "the clock that is compared",
		"server/auth/forward_audit.go":              "the time of a command",
		"server/internal/console/record.go":         "the time of a command",
		"executor/executortest/lab.go":              "the time of a command",
	}
}

// checkHostTimes lists the places that write the host's clock into a message.
func checkHostTimes(files []source, allowed map[string]string) []string {
	var found []string
	for _, s := range files {
		first, _, _ := strings.Cut(s.path, "/")
		part := first == "cluster" || first == "server" || first == "executor"
		if s.generated() || s.isTest() || !part || allowed[s.path] != "" {
			continue
		}
		for _, u := range s.uses("google.golang.org/protobuf/types/known/timestamppb", "Now") {
			found = append(found, fmt.Sprintf("%s: timestamppb.Now is the clock of one host: use the cluster's time "+
				"(edge.Peer.Time, clock.Clock)", s.at(u.Pos())))
		}
	}
	return found
}

func TestHostTimes(t *testing.T) {
	for _, f := range checkHostTimes(sources(t), hostTimes()) {
		t.Error(f)
	}
}

func TestCheckHostTimes(t *testing.T) {
	const text = "package x\n\nimport \"google.golang.org/protobuf/types/known/timestamppb\"\n\n" +
		"var at = timestamppb.Now()\n"
	var files []source
	for _, name := range []string{"cluster/x.go", "cluster/x_test.go", "client/x.go", "server/ok.go"} {
		s, err := newSource(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, s)
	}
	var got []string
	for _, f := range checkHostTimes(files, map[string]string{"server/ok.go": "a reason"}) {
		at, _, _ := strings.Cut(f, ": ")
		got = append(got, at)
	}
	if diff := cmp.Diff([]string{"cluster/x.go:5"}, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
