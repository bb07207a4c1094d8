package images

import (
	"io"
	"net/http"
)

// counted counts the bytes that are served, and leaves the kernel to send files where it can.
type counted struct {
	http.ResponseWriter
	d *Depot
}

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.d.metrics.served.Add(float64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (c *counted) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(c.ResponseWriter, r)
	c.d.metrics.served.Add(float64(n))
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }
