package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestFetchSelectsArchitecture(t *testing.T) {
	dir := t.TempDir()
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("deb")))
	list := "# a comment\n# day: 20261127T000000Z\n"
	for _, name := range []string{"a_1_amd64.deb", "a_1_arm64.deb", "b_1_all.deb"} {
		writeFile(t, filepath.Join(dir, name), "deb")
		list += sum + " https://deb.debian.org/debian/pool/" + name + "\n"
	}
	pins, err := ReadPins(strings.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pins.Fetch(t.Context(), dir, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "a_1_arm64.deb"), filepath.Join(dir, "b_1_all.deb")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	url := "https://snapshot.debian.org/archive/debian/20261127T000000Z/pool/b_1_all.deb"
	if got := pins.archived("https://deb.debian.org/debian/pool/b_1_all.deb"); got != url {
		t.Errorf("archived = %s, want %s", got, url)
	}
}

func TestVerify(t *testing.T) {
	p := pin{sum: fmt.Sprintf("%x", sha256.Sum256([]byte("deb")))}
	if err := p.verify([]byte("deb")); err != nil {
		t.Errorf("verify the package: %v", err)
	}
	if err := p.verify([]byte("other")); err == nil {
		t.Error("verify another file: got no error")
	}
}

// stalled is a network without answers.
type stalled struct{}

func (stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestStalledDownloadsEnd checks that a mirror that does not answer cannot hang a release.
func TestStalledDownloadsEnd(t *testing.T) {
	network := http.DefaultTransport
	http.DefaultTransport = stalled{}
	defer func() { http.DefaultTransport = network }()
	synctest.Test(t, func(t *testing.T) {
		p := Pins{pins: []pin{{url: "https://deb.debian.org/debian/pool/a_1_arm64.deb"}}}
		if _, err := p.Fetch(t.Context(), t.TempDir(), "arm64"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the deadline has passed", err)
		}
	})
}

// TestList checks the list in the repository.
func TestList(t *testing.T) {
	file, err := os.Open("../../../deploy/container/debs.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	pins, err := ReadPins(file)
	if err != nil {
		t.Fatal(err)
	}
	if pins.day == "" {
		t.Error("the list has no day")
	}
	of := map[string]int{}
	for _, p := range pins.pins {
		if p.url == pins.archived(p.url) {
			t.Errorf("%s has no URL in Debian's archive", p.url)
		}
		for _, arch := range []string{"amd64", "arm64", "all"} {
			if strings.HasSuffix(p.url, "_"+arch+".deb") {
				of[arch]++
			}
		}
	}
	if of["amd64"] != of["arm64"] || of["all"]+2*of["amd64"] != len(pins.pins) {
		t.Errorf("the list has %v packages by architecture: want as many for amd64 as for arm64", of)
	}
}
