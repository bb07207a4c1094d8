package jsonapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// message is a message of a stream, or its end: io.EOF or an error.
type message struct {
	proto.Message
	err error
}

// stream serves a method that streams responses.
func (e *endpoint) stream(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", e.streamType(r))
		return
	}
	req := e.in.New().Interface()
	err := e.read(r, req)
	if err == nil {
		err = e.resume(r, req)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	s, err := e.open(ctx, r, req)
	if err != nil {
		cancel()
		refuse(w, err)
		return
	}
	_ = s.CloseSend() // never fails in this process
	e.forward(w, r, s, cancel, nil)
}

// open starts the call with its first message.
func (e *endpoint) open(ctx context.Context, r *http.Request, first proto.Message) (grpc.ClientStream, error) {
	ctx, err := outgoing(ctx, r)
	if err != nil {
		return nil, err
	}
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: e.Method.IsStreamingClient()}
	s, err := e.rpc.NewStream(ctx, desc, e.call)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(first); err != nil && !errors.Is(err, io.EOF) { // RecvMsg returns the cause of io.EOF
		return nil, err
	}
	return s, nil
}

// streamType returns the content type of a stream. A stream of bytes is sent as they are if the
// client accepts text or bytes.
func (e *endpoint) streamType(r *http.Request) string {
	accepts := r.Header.Get("Accept")
	switch {
	case e.ResponseBody != "", e.data != nil && strings.HasPrefix(accepts, "application/octet-stream"):
		return "application/octet-stream"
	case e.data != nil && strings.HasPrefix(accepts, "text/plain"):
		return "text/plain; charset=utf-8"
	}
	return "text/event-stream"
}

// forward sends the messages of a call to the client, and blocks until the call has ended. It calls
// cancel, and waits for done.
func (e *endpoint) forward(
	w http.ResponseWriter, r *http.Request, s grpc.ClientStream, cancel context.CancelFunc, done <-chan struct{},
) {
	messages := make(chan message)
	over := make(chan struct{})
	go func() {
		defer close(over)
		e.receive(s, messages)
	}()
	defer func() {
		cancel()
		<-over
		if done != nil {
			<-done
		}
	}()
	kind := e.streamType(r)
	if kind == "text/event-stream" {
		e.events(w, s, messages)
		return
	}
	e.bytes(w, s, messages, kind)
}

// receive reads the messages of a call until it ends.
func (e *endpoint) receive(s grpc.ClientStream, to chan<- message) {
	for {
		m := message{Message: e.out.New().Interface()}
		m.err = s.RecvMsg(m.Message)
		select {
		case to <- m:
		case <-s.Context().Done():
			return
		}
		if m.err != nil {
			return
		}
	}
}

// events sends messages as server-sent events. The last event is `end` if the call has succeeded,
// and otherwise `problem`.
func (e *endpoint) events(w http.ResponseWriter, s grpc.ClientStream, messages <-chan message) {
	out := httpjson.NewEvents(w)
	defer out.End()
	alive := time.NewTimer(httpjson.FirstAlive)
	defer alive.Stop()
	for {
		text, last := httpjson.Alive, false
		select {
		case m := <-messages:
			if !out.Begun() {
				takePosition(w, s)
				if m.err != nil && !errors.Is(m.err, io.EOF) {
					refuse(w, m.err)
					return
				}
			}
			text, last = e.event(m), m.err != nil
		case <-alive.C:
			alive.Reset(httpjson.AliveEvery)
		case <-s.Context().Done():
			return
		}
		if err := out.Write(text); err != nil || last {
			return
		}
	}
}

// event returns a server-sent event.
func (e *endpoint) event(m message) string {
	if errors.Is(m.err, io.EOF) {
		return "event: end\ndata: {}\n\n"
	}
	var data []byte
	err := m.err
	if err == nil {
		data, err = encode(nil, m.Message)
	}
	if err != nil {
		return "event: problem\ndata: " + string(problemOf(err).json()) + "\n\n"
	}
	text := ""
	if id := e.eventID(m.Message); id != "" {
		text = "id: " + id + "\n"
	}
	if !e.bookmark(m.Message) {
		text += "data: " + string(data) + "\n"
	}
	return text + "\n"
}

// bytes sends the bytes in messages. If the call fails after the first ones, the connection is
// aborted, so that the client does not mistake a part for all of it.
func (e *endpoint) bytes(w http.ResponseWriter, s grpc.ClientStream, messages <-chan message, kind string) {
	c := http.NewResponseController(w)
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	for begun := false; ; begun = true {
		var m message
		select {
		case m = <-messages:
		case <-s.Context().Done():
			return // the client has disconnected
		}
		if !begun {
			takePosition(w, s)
			if m.err != nil && !errors.Is(m.err, io.EOF) {
				refuse(w, m.err)
				return
			}
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "no-store")
		}
		switch {
		case errors.Is(m.err, io.EOF), s.Context().Err() != nil:
			return
		case m.err != nil:
			panic(http.ErrAbortHandler)
		}
		_ = c.SetWriteDeadline(time.Now().Add(httpjson.WriteTimeout)) // recorders in tests do not support deadlines
		if _, err := w.Write(m.ProtoReflect().Get(e.data).Bytes()); err != nil {
			return
		}
		_ = c.Flush() // the next write returns the error
	}
}

// takePosition copies the position of a stream to the headers. The call has sent its header.
func takePosition(w http.ResponseWriter, s grpc.ClientStream) {
	if md, err := s.Header(); err == nil {
		httpjson.CopyPosition(w, md)
	}
}
