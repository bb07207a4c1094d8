package jsonapi

import (
	"net/http"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// eventID returns the id of an event, from which a stream resumes; "" if it has none.
func (e *endpoint) eventID(m proto.Message) string {
	var id uint64
	switch m := m.(type) {
	case *holdfastv1.LogChunk:
		id = uint64(m.GetOffset()) + uint64(len(m.GetData()))
	case *holdfastv1.AuditEvent:
		id = m.GetSequence()
	case interface{ GetCursor() uint64 }:
		id = m.GetCursor()
	}
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 10)
}

// resume continues a stream behind the event with the Last-Event-ID of a request. Streams of runs
// send bookmarks, which are events with an id and no data, so that an id remains valid.
func (e *endpoint) resume(r *http.Request, req proto.Message) error {
	if w, ok := req.(*holdfastv1.WatchRunsRequest); ok {
		w.Bookmarks = true
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		return nil
	}
	id, err := strconv.ParseUint(last, 10, 63)
	if err != nil {
		return invalid("INVALID_EVENT_ID", "Last-Event-ID is "+strconv.Quote(last)+": want the id of an event, or none")
	}
	switch req := req.(type) {
	case *holdfastv1.StreamRunLogsRequest:
		req.Offset = int64(id)
	case *holdfastv1.ExportAuditEventsRequest:
		req.FromSequence = id + 1
	default:
		if fd := req.ProtoReflect().Descriptor().Fields().ByName("cursor"); fd != nil {
			req.ProtoReflect().Set(fd, protoreflect.ValueOfUint64(id))
			return nil
		}
		return invalid("INVALID_EVENT_ID", e.Name()+" cannot be resumed: send no Last-Event-ID")
	}
	return nil
}

// bookmark reports whether a message has nothing but an id.
func (e *endpoint) bookmark(m proto.Message) bool {
	switch m := m.(type) {
	case *holdfastv1.RunEvent:
		return m.GetSnapshot() == nil
	case *holdfastv1.ServiceEvent:
		return m.GetService() == nil
	case *holdfastv1.Event:
		return m.GetType() == ""
	}
	return false
}
