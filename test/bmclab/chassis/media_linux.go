package chassis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// fetchTime bounds the download of an image, and maxImage its size.
const (
	fetchTime = time.Minute
	maxImage  = 1 << 30
)

// SetMedia inserts the image at a URL into the virtual drive, or ejects it if the URL is
// empty.
func (m *Machine) SetMedia(by, url string) error {
	m.pressing.Lock()
	defer m.pressing.Unlock()
	file := ""
	if url != "" {
		file = m.path("media.iso")
		if err := fetch(url, file); err != nil {
			return err
		}
	}
	m.mu.Lock()
	q := m.qemu
	m.mu.Unlock()
	if q != nil {
		var err error
		if file == "" {
			err = q.qmp.do("eject", map[string]any{"id": "cd0", "force": true})
		} else {
			err = q.qmp.do("blockdev-change-medium", map[string]any{"id": "cd0", "filename": file, "format": "raw",
				"force": true, "read-only-mode": "read-only"})
		}
		if err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.now.Media, m.image = url, file
	m.mu.Unlock()
	m.note(Effect{By: by, What: "media"})
	return nil
}

func fetch(url, file string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("fetch an image: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("fetch an image: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch an image: the server answers %s", res.Status)
	}
	f, err := os.Create(file + ".new")
	if err != nil {
		return fmt.Errorf("fetch an image: %w", err)
	}
	if _, err := io.Copy(f, io.LimitReader(res.Body, maxImage)); err != nil {
		return errors.Join(fmt.Errorf("fetch an image: %w", err), f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
