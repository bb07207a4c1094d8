// Package peers is the installer's side of the HTTP contract with a Holdfast cluster: the work
// order, reports and the log.
//
// It owns these messages, where they go and how often a request is made again: every peer answers
// every one of them, so a peer that is gone, silent or without a leader costs a moment and nothing
// else. It must not look at the machine, and it writes to nothing.
package peers

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/installer/diskrule"
)

// Order is what the cluster wants installed: the answer to GET /api/v1/install. Fields that are not
// known are ignored, so that a newer cluster can say more.
type Order struct {
	MachineID      string    `json:"machine_id"`
	RunID          string    `json:"run_id"`
	Attempt        int       `json:"attempt"`
	Image          Image     `json:"image"`
	Disk           string    `json:"disk"` // a rule of package diskrule
	Wipe           bool      `json:"wipe"`
	Hostname       string    `json:"hostname"`
	CloudInit      CloudInit `json:"cloud_init"`
	AuthorizedKeys []string  `json:"authorized_keys"`
	ReportURL      string    `json:"report_url"` // default: /api/v1/install/report
	LogURL         string    `json:"log_url"`    // default: /api/v1/install/log
	Servers        []string  `json:"servers"`    // base URLs; default: the one of the kernel command line
}

// Image is what to write.
type Image struct {
	Name        string `json:"name"`
	URL         string `json:"url"`         // absolute, or a path that every server has
	SHA256      string `json:"sha256"`      // of the bytes as they are sent
	SizeBytes   int64  `json:"size_bytes"`  // of the bytes as they are sent; 0: not known
	Format      string `json:"format"`      // RAW (default), QCOW2 or TAR (a root file system)
	Compression string `json:"compression"` // NONE (default), GZIP or ZSTD
}

// CloudInit is a NoCloud seed. What is empty is made up by the installer, or left out.
type CloudInit struct {
	UserData      string `json:"user_data"`
	NetworkConfig string `json:"network_config"`
	MetaData      string `json:"meta_data"`
}

// Check refuses an order that cannot be carried out. It brings the names of formats into one form.
func (o *Order) Check() error {
	o.Image.Format = plain(o.Image.Format, "IMAGE_FORMAT_", "RAW")
	o.Image.Compression = plain(o.Image.Compression, "IMAGE_COMPRESSION_", "NONE")
	o.Image.SHA256 = strings.ToLower(o.Image.SHA256)
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.MachineID == "" {
		refuse("it names no machine")
	}
	if u, err := url.Parse(o.Image.URL); err != nil || u.Path == "" || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" {
		refuse("image %s has the URL %q: only http:// and https:// can be fetched", o.Image.Name, o.Image.URL)
	}
	if len(o.Image.SHA256) != 64 || strings.Trim(o.Image.SHA256, "0123456789abcdef") != "" {
		refuse("image %s has the sha256 %q, which is none: an image that cannot be checked is not written", o.Image.Name, o.Image.SHA256)
	}
	if !slices.Contains([]string{"RAW", "QCOW2", "TAR"}, o.Image.Format) {
		refuse("image %s has the format %s, and this installer writes RAW, QCOW2 and TAR: make a disk image of it and add that", o.Image.Name, o.Image.Format)
	}
	if !slices.Contains([]string{"NONE", "GZIP", "ZSTD"}, o.Image.Compression) {
		refuse("image %s has the compression %s: this installer knows NONE, GZIP and ZSTD", o.Image.Name, o.Image.Compression)
	}
	if _, err := diskrule.Parse(o.Disk); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("check the work order of run %s: %w", o.RunID, err)
	}
	return nil
}

// plain takes "raw", "RAW" and "IMAGE_FORMAT_RAW" alike.
func plain(s, prefix, empty string) string {
	s = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(s)), prefix)
	if s == "" || s == "UNSPECIFIED" {
		return empty
	}
	return s
}

// The statuses of a report.
const (
	Started  = "started"
	Progress = "progress"
	Complete = "complete"
	Failed   = "failed"
)

// Report is the body of POST /api/v1/install/report.
type Report struct {
	Status    string     `json:"status"`
	Stage     string     `json:"stage,omitempty"`     // what is being done, in a word
	Progress  int        `json:"progress"`            // percent, 0 to 100
	Error     string     `json:"error,omitempty"`     // failed: why
	HostKeys  []string   `json:"host_keys,omitempty"` // complete: public halves, as in known_hosts
	Inventory *Inventory `json:"inventory,omitempty"`
	IPAddress string     `json:"ip_address,omitempty"`
}

// Inventory is what the installer found in the machine.
type Inventory struct {
	Vendor        string          `json:"vendor,omitempty"`
	Model         string          `json:"model,omitempty"`
	SerialNumber  string          `json:"serial_number,omitempty"`
	SystemUUID    string          `json:"system_uuid,omitempty"`
	Arch          string          `json:"arch,omitempty"`
	BootMode      string          `json:"boot_mode,omitempty"`
	CPUMillicores int64           `json:"cpu_millicores,omitempty"`
	MemoryMiB     int64           `json:"memory_mib,omitempty"`
	GPUCount      int             `json:"gpu_count"`
	NICs          []NIC           `json:"nics,omitempty"`
	Disks         []diskrule.Disk `json:"disks"`
	Wiped         []Wiped         `json:"wiped,omitempty"`
}

// NIC is one network interface.
type NIC struct {
	Name string `json:"name"`
	MAC  string `json:"mac"`
}

// Wiped is what became of a disk that was to be wiped.
type Wiped struct {
	Disk   string `json:"disk"`
	Method string `json:"method,omitempty"` // what erased it; empty: nothing did
	Error  string `json:"error,omitempty"`  // what was tried in vain
}
