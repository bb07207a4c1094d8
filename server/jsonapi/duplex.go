package jsonapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The maximum size of a part of the body, in bytes: that of a message of the method.
const (
	consolePart = 4 << 10
	filePart    = 256 << 10
)

// duplex serves a method that streams both ways. The path and the query are the first message; the
// body is the bytes of the following ones.
func (e *endpoint) duplex(w http.ResponseWriter, r *http.Request) {
	first := e.in.New().Interface()
	if err := e.read(r, first); err != nil {
		refuse(w, err)
		return
	}
	upload, ok := first.(*holdfastv1.UploadFileRequest)
	if ok && upload.GetHeader().GetSizeBytes() == 0 && r.ContentLength > 0 {
		upload.GetHeader().SizeBytes = r.ContentLength
	}
	c := http.NewResponseController(w)
	_ = c.EnableFullDuplex() // recorders in tests and HTTP/2 do not need it
	ctx, cancel := context.WithCancel(r.Context())
	s, err := e.open(ctx, r, first)
	if err == nil && ok {
		err = skip(s, r.Body)
	}
	if err != nil {
		cancel()
		refuse(w, err)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.send(s, r.Body, cancel)
	}()
	stop := func() {
		cancel()
		_ = c.SetReadDeadline(time.Unix(1, 0)) // the body may never end
	}
	e.forward(w, r, s, stop, done)
}

// skip reads over the part of a file that the peer has from an interrupted upload.
func skip(s grpc.ClientStream, body io.Reader) error {
	var has holdfastv1.UploadFileResponse
	if err := s.RecvMsg(&has); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, body, has.GetReceivedBytes()); err != nil {
		return invalid("INVALID_BODY", "body is incomplete")
	}
	return nil
}

// send sends the body until it ends. If it breaks off, the call is canceled.
func (e *endpoint) send(s grpc.ClientStream, body io.Reader, cancel context.CancelFunc) {
	size := consolePart
	if e.in.Descriptor().Name() == "UploadFileRequest" {
		size = filePart
	}
	for {
		part := make([]byte, size)
		n, err := body.Read(part)
		if n > 0 && s.SendMsg(e.part(part[:n])) != nil {
			return // RecvMsg returns the cause
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = s.CloseSend() // never fails in this process
			return
		case err != nil:
			cancel()
			return
		}
	}
}

// part returns a message with a part of the body.
func (e *endpoint) part(b []byte) proto.Message {
	m := e.in.New()
	m.Set(e.body, protoreflect.ValueOfBytes(b))
	return m.Interface()
}
