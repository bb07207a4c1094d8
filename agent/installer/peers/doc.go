// Package peers is the installer's client of a Holdfast cluster, over HTTP: the work order,
// reports and the log.
//
// It defines the messages and the retries. Every peer answers every request, so a peer that
// is down, silent or without a leader only costs a moment. The package does not read the
// machine and writes to nothing.
package peers

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

// Order is the work order: the response to GET /api/v1/install. Unknown fields are ignored,
// so that newer clusters can add some.
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

// Image is the image to write.
type Image struct {
	Name        string `json:"name"`
	URL         string `json:"url"`         // absolute, or a path on every server
	SHA256      string `json:"sha256"`      // of the bytes as they are sent
	SizeBytes   int64  `json:"size_bytes"`  // of the bytes as they are sent; 0: unknown
	Format      string `json:"format"`      // RAW (default), QCOW2 or TAR (a root file system)
	Compression string `json:"compression"` // NONE (default), GZIP or ZSTD
}

// CloudInit is a NoCloud seed. The installer fills in or omits empty fields.
type CloudInit struct {
	UserData      string `json:"user_data"`
	NetworkConfig string `json:"network_config"`
	MetaData      string `json:"meta_data"`
}

// Check returns an error if the order cannot be carried out. It normalizes the names of
// formats.
func (o *Order) Check() error {
	o.Image.Format = plain(o.Image.Format, "IMAGE_FORMAT_", "RAW")
	o.Image.Compression = plain(o.Image.Compression, "IMAGE_COMPRESSION_", "NONE")
	o.Image.SHA256 = strings.ToLower(o.Image.SHA256)
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.MachineID == "" {
		refuse("no machine id")
	}
	u, err := url.Parse(o.Image.URL)
	if err != nil || u.Path == "" || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" {
		refuse("image %s has the URL %q: only http:// and https:// can be fetched", o.Image.Name, o.Image.URL)
	}
	if len(o.Image.SHA256) != 64 || strings.Trim(o.Image.SHA256, "0123456789abcdef") != "" {
		refuse("image %s has the sha256 %q, which is invalid: an image that cannot be checked is not written",
			o.Image.Name, o.Image.SHA256)
	}
	if !slices.Contains([]string{"RAW", "QCOW2", "TAR"}, o.Image.Format) {
		refuse("image %s has the format %s, and this installer writes RAW, QCOW2 and TAR: "+
			"make a disk image of it and add that", o.Image.Name, o.Image.Format)
	}
	if !slices.Contains([]string{"NONE", "GZIP", "ZSTD"}, o.Image.Compression) {
		refuse("image %s has the compression %s: this installer knows NONE, GZIP and ZSTD",
			o.Image.Name, o.Image.Compression)
	}
	if _, err := diskrule.Parse(o.Disk); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("check the work order of run %s: %w", o.RunID, err)
	}
	return nil
}

// plain normalizes a name: "raw", "RAW" and "IMAGE_FORMAT_RAW" are the same.
func plain(s, prefix, empty string) string {
	s = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(s)), prefix)
	if s == "" || s == "UNSPECIFIED" {
		return empty
	}
	return s
}

// Statuses of a report.
const (
	Started  = "started"
	Progress = "progress"
	Complete = "complete"
	Failed   = "failed"
)

// Report is the body of POST /api/v1/install/report.
type Report struct {
	Status    string     `json:"status"`
	Stage     string     `json:"stage,omitempty"`     // the current step, in one word
	Progress  int        `json:"progress"`            // percent, 0 to 100
	Error     string     `json:"error,omitempty"`     // of a failed installation
	HostKeys  []string   `json:"host_keys,omitempty"` // of a complete installation: public halves, as in known_hosts
	Inventory *Inventory `json:"inventory,omitempty"`
	IPAddress string     `json:"ip_address,omitempty"`
}

// Inventory is the hardware that the installer found.
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

// Wiped is the outcome for a disk that was to be erased.
type Wiped struct {
	Disk   string `json:"disk"`
	Method string `json:"method,omitempty"` // the method that worked; empty: none did
	Error  string `json:"error,omitempty"`  // of the methods that failed
}
