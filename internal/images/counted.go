package images

import (
	"io"
	"net/http"
	"time"
)

// counted is a ResponseWriter that counts the bytes sent and closes the connection of a
// client that reads too slowly. It lets the kernel send files (sendfile) where possible.
type counted struct {
	http.ResponseWriter
	count func(float64)
	rc    *http.ResponseController
	due   time.Time // deadline for the bytes sent so far
}

func newCounted(w http.ResponseWriter, count func(float64), slack time.Duration) *counted {
	return &counted{ResponseWriter: w, count: count, rc: http.NewResponseController(w), due: time.Now().Add(slack)}
}

// sends runs write with a deadline. The write fails if the client has read less than
// slowestDownload on average. Recorders in tests do not support deadlines.
func (c *counted) sends(write func() (int64, error)) (int64, error) {
	_ = c.rc.SetWriteDeadline(c.due)
	n, err := write()
	c.count(float64(n))
	c.due = c.due.Add(time.Duration(n) * time.Second / slowestDownload)
	return n, err
}

// done clears the deadline, because the connection may serve another request.
func (c *counted) done() { _ = c.rc.SetWriteDeadline(time.Time{}) }

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.sends(func() (int64, error) {
		n, err := c.ResponseWriter.Write(p)
		return int64(n), err
	})
	return int(n), err
}

// ReadFrom implements io.ReaderFrom. It sends one piece at a time. The kernel sends a file
// itself only if the file is behind one LimitedReader, not two.
func (c *counted) ReadFrom(r io.Reader) (sum int64, err error) {
	whole, ok := r.(*io.LimitedReader)
	for {
		part := &io.LimitedReader{R: r, N: piece}
		if ok {
			part = &io.LimitedReader{R: whole.R, N: min(whole.N, piece)}
		}
		want := part.N
		n, err := c.sends(func() (int64, error) { return io.Copy(c.ResponseWriter, part) })
		sum += n
		if ok {
			whole.N -= n
		}
		if err != nil || n < want || ok && whole.N <= 0 {
			return sum, err
		}
	}
}

// Unwrap supports http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }
