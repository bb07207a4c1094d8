package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// cloudEvent is an event in the JSON format of CloudEvents 1.0, with the extensions
// `sequence` and `partitionkey`.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Sequence        string          `json:"sequence"`               // sorts as text in the order of the events
	PartitionKey    string          `json:"partitionkey,omitempty"` // the machine, whose events stay in order
	Data            json.RawMessage `json:"data"`
}

// typePrefix makes event types globally unique.
const typePrefix = "io.holdfast."

// messageID returns the permanent id of an event of a cluster. Receivers use it to drop
// duplicates.
func messageID(clusterID string, cursor uint64) string {
	return clusterID + "-" + strconv.FormatUint(cursor, 10)
}

// encode returns the body of the message for an event.
func encode(clusterID string, e *holdfastv1.Event) ([]byte, error) {
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event %d: %w", e.GetCursor(), err)
	}
	body, err := json.Marshal(cloudEvent{
		SpecVersion:     "1.0",
		ID:              messageID(clusterID, e.GetCursor()),
		Source:          "/clusters/" + clusterID,
		Type:            typePrefix + e.GetType(),
		Subject:         subject(e),
		Time:            e.GetAt().AsTime().Format(time.RFC3339Nano),
		DataContentType: "application/json",
		Sequence:        fmt.Sprintf("%020d", e.GetCursor()),
		PartitionKey:    e.GetMachineId(),
		Data:            data,
	})
	if err != nil {
		return nil, fmt.Errorf("encode event %d: %w", e.GetCursor(), err)
	}
	return body, nil
}

// subject returns the subject of an event as a path.
func subject(e *holdfastv1.Event) string {
	switch {
	case e.GetRun() != nil:
		return "machines/" + e.GetMachineId() + "/runs/" + e.GetRun().GetRunId()
	case e.GetService() != nil:
		return "services/" + e.GetService().GetTarget().GetId()
	case e.GetPool() != nil:
		return "pools/" + e.GetPool().GetPoolId()
	}
	return "machines/" + e.GetMachineId()
}

// sign returns the signature of a message (Standard Webhooks 1.0: v1, HMAC-SHA256 of
// id.timestamp.body in base64).
func sign(key []byte, id string, at time.Time, body []byte) string {
	h := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(h, "%s.%d.", id, at.Unix())
	_, _ = h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
