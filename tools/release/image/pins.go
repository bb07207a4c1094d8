package image

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Pins is a list of Debian packages with their checksums.
type Pins struct {
	day  string // of the archive that has them all, such as 20261127T000000Z
	pins []pin
}

type pin struct{ sum, url string }

// ReadPins reads lines with a SHA-256 and a URL, and one line with the day: "# day: DAY".
func ReadPins(r io.Reader) (Pins, error) {
	var p Pins
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if day, ok := strings.CutPrefix(lines.Text(), "# day: "); ok {
			p.day = day
			continue
		}
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		sum, url, ok := strings.Cut(lines.Text(), " ")
		if !ok || len(sum) != 2*sha256.Size {
			return Pins{}, fmt.Errorf("line %q: want a SHA-256 and a URL", lines.Text())
		}
		p.pins = append(p.pins, pin{sum, url})
	}
	return p, lines.Err()
}

// Fetch returns the files of an architecture, which has Go's name. It downloads those that dir
// lacks, and verifies the checksums of all.
func (p Pins) Fetch(ctx context.Context, dir, arch string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create the directory: %w", err)
	}
	var files []string
	for _, one := range p.pins {
		name := path.Base(one.url)
		if !strings.HasSuffix(name, "_"+arch+".deb") && !strings.HasSuffix(name, "_all.deb") {
			continue
		}
		file := filepath.Join(dir, name)
		if err := p.fetch(ctx, one, file); err != nil {
			return nil, fmt.Errorf("fetch %s: %w", name, err)
		}
		files = append(files, file)
	}
	return files, nil
}

func (p Pins) fetch(ctx context.Context, one pin, file string) error {
	raw, err := os.ReadFile(file)
	if err == nil && one.verify(raw) == nil {
		return nil
	}
	var failed error
	for _, url := range []string{one.url, p.archived(one.url)} {
		if raw, err = get(ctx, url); err == nil {
			if err := one.verify(raw); err != nil {
				return err
			}
			return os.WriteFile(file, raw, 0o600)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (p pin) verify(raw []byte) error {
	if got := fmt.Sprintf("%x", sha256.Sum256(raw)); got != p.sum {
		return fmt.Errorf("SHA-256 %s: want %s", got, p.sum)
	}
	return nil
}

// archived returns the URL of a package in Debian's archive. It keeps all packages; mirrors delete
// a package when a newer one replaces it.
func (p Pins) archived(url string) string {
	for _, archive := range []string{"debian", "debian-security"} {
		if rest, ok := strings.CutPrefix(url, "https://deb.debian.org/"+archive+"/"); ok {
			return "https://snapshot.debian.org/archive/" + archive + "/" + p.day + "/" + rest
		}
	}
	return url
}

// downloadTimeout is the limit of one download. A package has at most 3 MB.
const downloadTimeout = 5 * time.Minute

func get(ctx context.Context, url string) (raw []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
