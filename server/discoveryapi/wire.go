package discoveryapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// target is a ServiceTarget. All nine members are present in every answer.
type target struct {
	ID              *string `json:"id"`
	ServiceName     *string `json:"serviceName"`
	Host            *string `json:"host"`
	Port            int32   `json:"port"`
	ServiceType     *string `json:"serviceType"`
	ServiceSubType  *string `json:"serviceSubType"`
	LanguageName    *string `json:"languageName"`
	LanguageType    *string `json:"languageType"`
	LanguageSubType *string `json:"languageSubType"`
}

func (t *target) proto() *holdfastv1.ServiceTarget {
	return &holdfastv1.ServiceTarget{
		Id:              text(t.ID),
		ServiceName:     text(t.ServiceName),
		Host:            text(t.Host),
		Port:            t.Port,
		ServiceType:     text(t.ServiceType),
		ServiceSubType:  text(t.ServiceSubType),
		LanguageName:    text(t.LanguageName),
		LanguageType:    text(t.LanguageType),
		LanguageSubType: text(t.LanguageSubType),
	}
}

func showTarget(t *holdfastv1.ServiceTarget) target {
	return target{
		ID:              httpjson.OrNull(t.GetId()),
		ServiceName:     httpjson.OrNull(t.GetServiceName()),
		Host:            httpjson.OrNull(t.GetHost()),
		Port:            t.GetPort(),
		ServiceType:     httpjson.OrNull(t.GetServiceType()),
		ServiceSubType:  httpjson.OrNull(t.GetServiceSubType()),
		LanguageName:    httpjson.OrNull(t.GetLanguageName()),
		LanguageType:    httpjson.OrNull(t.GetLanguageType()),
		LanguageSubType: httpjson.OrNull(t.GetLanguageSubType()),
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// state is a ServiceState.
type state struct {
	Timestamp stamp  `json:"timestamp"`
	Healthy   bool   `json:"healthy"`
	Reason    string `json:"reason"`
}

func (s *state) proto() *holdfastv1.ServiceState {
	out := &holdfastv1.ServiceState{Healthy: s.Healthy, Reason: s.Reason}
	if !s.Timestamp.IsZero() {
		out.Timestamp = timestamppb.New(s.Timestamp.Time)
	}
	return out
}

// maxSeconds is the largest number of a timestamp that counts seconds. Larger ones, from the year
// 5138 on, count milliseconds.
const maxSeconds = 1e11

// stamp is a time. It is read as ISO 8601 or as seconds or milliseconds since 1970, all with an
// optional fraction, and written as ISO 8601.
type stamp struct{ time.Time }

// UnmarshalJSON accepts all forms, numbers also as text, and null.
func (s *stamp) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	if len(b) > 0 && b[0] != '"' {
		f, err := strconv.ParseFloat(string(b), 64)
		if math.Abs(f) > maxSeconds {
			f /= 1000
		}
		if err != nil || math.Abs(f) > maxSeconds {
			return fmt.Errorf("timestamp: want ISO 8601 or seconds, not %.30s", b)
		}
		sec, frac := math.Modf(f)
		s.Time = time.Unix(int64(sec), int64(frac*1e9)).UTC()
		return nil
	}
	var t string
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	for _, layout := range []string{
		time.RFC3339Nano,
		"2006-01-02T15:04:05.999999999",
		"2006-01-02T15:04:05.999999999Z0700",
	} {
		if at, err := time.Parse(layout, t); err == nil {
			s.Time = at.UTC()
			return nil
		}
	}
	if _, err := strconv.ParseFloat(t, 64); err == nil {
		return s.UnmarshalJSON([]byte(t))
	}
	return fmt.Errorf("timestamp: want ISO 8601 or seconds, not %.30q", t)
}

// MarshalJSON writes ISO 8601, or null.
func (s stamp) MarshalJSON() ([]byte, error) {
	if s.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(s.UTC().Format(time.RFC3339Nano))
}

func stampOf(t *timestamppb.Timestamp) stamp {
	if t == nil {
		return stamp{}
	}
	return stamp{t.AsTime()}
}

// activity is the activity record of a service.
type activity struct {
	ID       string  `json:"id"`
	LastSeen stamp   `json:"lastSeen"`
	Active   bool    `json:"active"`
	States   []state `json:"states"`
}

func showActivity(s *holdfastv1.Service) activity {
	a := activity{
		ID:       s.GetTarget().GetId(),
		LastSeen: stampOf(s.GetLastSeen()),
		Active:   s.GetActive(),
		States:   []state{},
	}
	for _, st := range s.GetStates() {
		a.States = append(a.States, state{
			Timestamp: stampOf(st.GetTimestamp()),
			Healthy:   st.GetHealthy(),
			Reason:    st.GetReason(),
		})
	}
	return a
}
