// Package redfishtest is a Redfish service for tests: a BMC and its machines that exist in memory,
// keep their state, and misbehave as real ones do where they are told to (Quirks).
//
// It follows the DMTF's Redfish specification (DSP0266) and schemas (DSP8010): ServiceRoot,
// SessionService, ComputerSystem, Manager, Chassis, VirtualMedia, LogService, EthernetInterface,
// Processor, Memory, Storage. It owns no hardware and knows nothing of Holdfast.
package redfishtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config is what a service is like.
type Config struct {
	User         string        // default admin
	Password     string        // default secret
	Systems      []string      // ids; default "1"
	Manufacturer string        // default Contoso
	PowerTime    time.Duration // from a press until it shows
	PostTime     time.Duration // from power on until the firmware boots something
	BootTime     time.Duration // from there until the operating system runs
	ResetTime    time.Duration // how long the BMC is gone when it is reset
	Off          bool          // machines are off at first
	Slots        []Slot        // virtual drives of each machine; default one for floppies, one for CDs
	Style        Style

	Chassis map[string]Chassis // by system: those that exist outside of the service. The times and Off do not apply to them
}

// Slot is a virtual drive.
type Slot struct {
	ID    string
	Types []string // of media
	Patch bool     // it has no actions: it is changed by PATCH
	Local bool     // it takes no URL
	Hides bool     // it shows InsertMedia only while it is empty
}

// Quirks is how a service misbehaves. It can be changed at any time.
type Quirks struct {
	SessionLimit  int           // 503 for one session more
	LimitStatus   int           // instead of that 503
	LockAfter     int           // refused logins after which even good ones are refused
	InPOST        bool          // 409 to changes while a machine is in POST
	Ignore        []string      // accepted, but nothing happens: reset, boot, media
	HangAfter     int           // that many requests are served, then none is answered any more; 0 is off
	Hang          bool          // none is answered
	HangSystems   bool          // none about machines is answered; those about the BMC itself are
	Drop          int           // every n-th request is served, but its connection breaks before the answer
	DropLogins    int           // the same for that many logins to come
	Busy          int           // every n-th request is not served: 503, temporarily unavailable
	DropPresses   int           // that many presses to come are done, and their connection breaks before the answer
	RebootPresses int           // that many presses to come are done, and instead of an answer the BMC restarts
	OwnETag       bool          // 412 to its own ETag
	RefuseMode    bool          // 400 to any BootSourceOverrideMode
	NoMode        bool          // shows no BootSourceOverrideMode
	UEFIOnly      bool          // 400 to legacy boot
	NoSessions    bool          // basic authentication only
	OffIsAnError  bool          // 400 when it is off (or on) already
	ResetTypes    []string      // allowable values; default On ForceOff GracefulShutdown ForceRestart
	ActionInfo    bool          // shows them in an ActionInfo only
	TypesByState  bool          // shows and takes only those that make sense in its power state
	Latency       time.Duration // of every answer
	ExpireSession bool          // every session ends after its next request
	KeepSessions  int           // that many requests to end a session are not served: 503, temporarily unavailable
	TwoLogs       bool          // the event log is two log services
	MediaStrict   bool          // 400 to InsertMedia with Inserted or WriteProtected
	MediaSpelling bool          // shows the URL of a medium in another spelling: HOST:80 in capitals, and a blank after it
	NewPassword   bool          // 403 to logins with a good password, until it is changed
	MediaNeeds    []string      // 400 to InsertMedia without these parameters
	Missing       []string      // paths that are answered 404, as while a BMC starts
	NoSystems     bool          // the collection of systems is empty, as while a BMC starts
	ManagerLog    bool          // the event log is below the manager, not the system (Dell)
}

// Effect is a change that was accepted, in order.
type Effect struct {
	System  string
	Name    string // reset, boot, media_insert, media_eject, identify, bmc_reset
	Detail  string
	At      time.Time
	Ignored bool // reset, boot: nothing happened
}

// Service is one BMC. It is safe for concurrent use.
type Service struct {
	cfg  Config
	stop chan struct{}

	mu        sync.Mutex
	quirks    Quirks
	systems   []*system
	sessions  map[string]*session // by id
	next      int                 // id of a session
	served    int
	refused   int // logins in a row
	logins    int // all that were tried
	effects   []Effect
	tasks     []task
	failTasks string
	gone      time.Time // until then the BMC is restarting
	whole     bool      // see Healthy
	broken    map[Part]bool
	swapped   bool   // see SwapSleds
	inFlight  [2]int // reads and writes that are being served
	most      [2]int
}

// New returns a service.
func New(c Config) *Service {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.User, "admin")
	def(&c.Password, "secret")
	def(&c.Manufacturer, "Contoso")
	if len(c.Systems) == 0 {
		c.Systems = []string{"1"}
	}
	if len(c.Slots) == 0 {
		c.Slots = []Slot{{ID: "Floppy1", Types: []string{"Floppy", "USBStick"}}, {ID: "Cd1", Types: []string{"CD", "DVD"}}}
	}
	s := &Service{cfg: c, stop: make(chan struct{}), sessions: map[string]*session{}}
	for i, id := range c.Systems {
		s.systems = append(s.systems, newSystem(s, id, i))
	}
	return s
}

// Close lets go of all requests that hang.
func (s *Service) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
}

// Set changes the quirks.
func (s *Service) Set(change func(*Quirks)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.quirks)
	if s.quirks.HangAfter > 0 {
		s.quirks.HangAfter += s.served
	}
}

// Sessions counts the sessions that are open.
func (s *Service) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Logins counts the logins that were tried, good or bad.
func (s *Service) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Served counts the requests.
func (s *Service) Served() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// Most returns how many reads and how many writes were served at once at most.
func (s *Service) Most() (reads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most[0], s.most[1]
}

// Effects returns what was accepted, in order; of one name if that is not empty.
func (s *Service) Effects(name string) []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.effects), func(e Effect) bool { return name != "" && e.Name != name })
}

// Systems returns the ids of the machines.
func (s *Service) Systems() []string { return slices.Clone(s.cfg.Systems) }

// Power reports whether a machine is on.
func (s *Service) Power(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(id)
	m.advance(time.Now())
	return m.on
}

// Booted returns what the machine booted from last: the target of the override then, or "".
func (s *Service) Booted(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(id)
	m.advance(time.Now())
	return m.booted
}

// Log adds an entry to the event log of a machine.
func (s *Service) Log(id, severity, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(id)
	m.log = append(m.log, entry{time.Now(), severity, message})
}

func (s *Service) find(id string) *system {
	for _, m := range s.systems {
		if m.id == id {
			return m
		}
	}
	return nil
}

// fault is an answer that is an error (DSP0266 §8.6).
type fault struct {
	status int
	code   string
	text   string
}

func refuse(status int, code, text string) *fault { return &fault{status, code, text} }

// Handler serves the API.
func (s *Service) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		if err := d.Decode(&body); err != nil {
			s.write(w, http.StatusBadRequest, nil, refuse(http.StatusBadRequest, "MalformedJSON", "The request body is not JSON."))
			return
		}
	}
	kind := 0
	if r.Method != http.MethodGet {
		kind = 1
	}
	s.mu.Lock()
	s.served++
	n, q, gone := s.served, s.quirks, time.Now().Before(s.gone)
	s.inFlight[kind]++
	s.most[kind] = max(s.most[kind], s.inFlight[kind])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight[kind]--
	}()
	if q.Latency > 0 {
		s.wait(r, time.After(q.Latency))
	}
	if q.Hang || q.HangAfter > 0 && n > q.HangAfter || q.HangSystems && strings.HasPrefix(r.URL.Path, "/redfish/v1/Systems") {
		s.wait(r, nil)
		panic(http.ErrAbortHandler)
	}
	if gone {
		panic(http.ErrAbortHandler)
	}
	if q.Busy > 0 && n%q.Busy == 0 {
		s.write(w, http.StatusServiceUnavailable, nil, busy())
		return
	}
	s.mu.Lock()
	res, err := s.answer(r, body)
	lost := q.Drop > 0 && n%q.Drop == 0 || s.interrupted(res)
	if res != nil && res.login && s.quirks.DropLogins > 0 {
		s.quirks.DropLogins--
		lost = true
	}
	s.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		s.write(w, err.status, nil, err)
		return
	}
	for k, v := range res.header {
		if k == "Location" && s.cfg.Style.FullLocations {
			v = "http://" + r.Host + v
		}
		w.Header().Set(k, v)
	}
	s.write(w, res.status, res.body, nil)
}

// interrupted reports whether the answer to a press is lost, and lets the BMC restart with it,
// where the quirks say so. The lock is held.
func (s *Service) interrupted(res *result) bool {
	if res == nil || !res.press {
		return false
	}
	if s.quirks.DropPresses > 0 {
		s.quirks.DropPresses--
		return true
	}
	if s.quirks.RebootPresses == 0 {
		return false
	}
	s.quirks.RebootPresses--
	clear(s.sessions)
	s.gone = time.Now().Add(s.cfg.ResetTime)
	return true
}

func (s *Service) wait(r *http.Request, c <-chan time.Time) {
	select {
	case <-c:
	case <-r.Context().Done():
	case <-s.stop:
	}
}

// result is an answer that is none.
type result struct {
	status int
	header map[string]string
	body   any
	login  bool
	press  bool // of a power button
}

func ok(body any) *result { return &result{status: http.StatusOK, body: body} }

func (s *Service) write(w http.ResponseWriter, status int, body any, f *fault) {
	w.Header().Set("OData-Version", "4.0")
	if f != nil {
		id := s.messageID(f.code)
		info := map[string]any{"MessageId": id, "Message": f.text, "Severity": "Critical"}
		code, text := id, f.text
		if s.cfg.Style.NoMessages {
			code, text = "iLO.0.10.ExtendedInfo", "See @Message.ExtendedInfo for more information."
			info = map[string]any{"MessageId": id, "MessageArgs": []any{f.text}}
		}
		body = map[string]any{"error": map[string]any{"code": code, "message": text, "@Message.ExtendedInfo": []any{info}}}
	}
	if body == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	b, err := json.Marshal(body)
	if err == nil && s.cfg.Style.Slashes {
		var plain any
		if err = json.Unmarshal(b, &plain); err == nil {
			b, err = json.Marshal(slashed(plain))
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// answer finds what a request is for. The lock is held.
func (s *Service) answer(r *http.Request, body map[string]any) (*result, *fault) {
	for _, m := range s.systems {
		m.advance(time.Now())
		if m.chassis != nil {
			if f := m.look(); f != nil {
				return nil, f
			}
		}
	}
	path := strings.TrimRight(r.URL.Path, "/")
	if slices.Contains(s.quirks.Missing, path) {
		return nil, notFound(path)
	}
	switch {
	case path == "/redfish" && r.Method == http.MethodGet:
		return ok(map[string]string{"v1": "/redfish/v1/"}), nil
	case path == "/redfish/v1" && r.Method == http.MethodGet:
		return ok(s.rootBody()), nil
	case path == sessionsPath && r.Method == http.MethodPost && !s.quirks.NoSessions:
		return s.logIn(body)
	}
	if f := s.authenticate(r); f != nil {
		return nil, f
	}
	rest, under := strings.CutPrefix(path, "/redfish/v1/")
	if !under {
		return nil, notFound(path)
	}
	parts := strings.Split(rest, "/")
	switch parts[0] {
	case "SessionService":
		return s.sessionService(r, parts[1:])
	case "Systems":
		if len(parts) == 1 && r.Method == http.MethodGet {
			ids := slices.Concat(s.style().Others, s.cfg.Systems)
			if s.quirks.NoSystems {
				ids = nil
			}
			return ok(s.collection("Systems", "ComputerSystem", ids...)), nil
		}
		if m := s.find(at(parts, 1)); m != nil {
			return m.answer(r, parts[2:], body)
		}
		if id := at(parts, 1); len(parts) == 2 && r.Method == http.MethodGet && slices.Contains(s.style().Others, id) {
			return ok(map[string]any{"@odata.id": path, "@odata.type": "#ComputerSystem.v1_23_0.ComputerSystem", "Id": id, "Name": id, "SerialNumber": "BASEBOARD",
				"SystemType": "Physical", "Manufacturer": s.cfg.Manufacturer, "PowerState": "On", "Status": health("Enabled", "OK")}), nil
		}
	case "Managers":
		return s.manager(r, parts[1:], body)
	case "Chassis":
		return s.chassis(r, parts[1:])
	case "TaskService":
		return s.taskService(r, parts[1:])
	}
	return nil, notFound(path)
}

func at(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return ""
}

func notFound(path string) *fault {
	return refuse(http.StatusNotFound, "ResourceMissingAtURI", "There is no resource at "+path+".")
}

func notAllowed() *fault {
	return refuse(http.StatusMethodNotAllowed, "OperationNotAllowed", "The resource does not take this method.")
}

// SwapSleds puts the machines of the first two systems into each other's places: what has a serial
// number goes, paths stay.
func (s *Service) SwapSleds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swapped = !s.swapped
}

// RenameSlot renames a virtual drive of each machine, as an update of the firmware may.
func (s *Service) RenameSlot(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Slots = slices.Clone(s.cfg.Slots)
	for i := range s.cfg.Slots {
		if s.cfg.Slots[i].ID == from {
			s.cfg.Slots[i].ID = to
		}
	}
	for _, id := range s.cfg.Systems {
		m := s.find(id)
		m.slots[to] = m.slots[from]
		m.slots[to].ID = to
		delete(m.slots, from)
	}
}

// sled returns which machine is in a place.
func (s *Service) sled(place int) int {
	if s.swapped && place < 2 {
		return 1 - place
	}
	return place
}

func busy() *fault {
	return refuse(http.StatusServiceUnavailable, "ServiceTemporarilyUnavailable", "The service is busy: try again.")
}
