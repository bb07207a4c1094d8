package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/imageformat"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// imageInput holds the flags of image add.
type imageInput struct {
	disk, kernel, initrd string // each a URL or a file
	sums                 []string
	sha256               map[string]string // parsed, by part
	format, compression  string
	image                *holdfastv1.Image
	replace, dryRun      bool
}

func imageAdd(a *app.App) *cobra.Command {
	var o output.Flags
	in := imageInput{image: &holdfastv1.Image{}}
	cmd := &cobra.Command{
		Use: "add IMAGE", Args: app.Exactly("IMAGE"),
		Short: "Add an image, and upload its files",
		Long: `Add an image. --disk, --kernel and --initrd are each an http or https URL, or a local file, which is uploaded until a majority of
the voters has it on disk. A URL needs the SHA-256 of its contents: peers fetch it themselves, and never serve a file with
another sum. An interrupted upload resumes when the command is repeated.

The format and compression of a disk are derived from its name (.qcow2, .tar, .gz, .zst; else raw), those of a local file from
its first bytes. The installer writes raw and qcow2 images, and unpacks tar images (docs/images.md).`,
		Example: `  holdfast image add debian-13 --disk debian-13-genericcloud-amd64.raw
  holdfast image add debian-13 --disk https://images.example/debian-13.raw.zst --sha256 $SUM
  holdfast image add installer --kernel vmlinuz --initrd installer.cpio.gz
  holdfast image add live --kernel https://e.example/vmlinuz --initrd https://e.example/initrd --sha256 kernel=$A --sha256 initrd=$B --cmdline "console=ttyS0"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.image.Name = args[0]
			if err := in.check(); err != nil {
				return err
			}
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := in.addFiles(ctx, a, c); err != nil {
					return err
				}
				i, err := c.Images().AddImage(ctx, &holdfastv1.AddImageRequest{Image: in.image, Replace: in.replace,
					ValidateOnly: in.dryRun})
				if err != nil {
					return app.Failed(err, "add image %s", args[0])
				}
				return output.PrintOne(a, &o, kinds.Image(), i)
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(kinds.Image())...)
	f := cmd.Flags()
	f.StringVar(&in.disk, "disk", "", "`URL or file` of the disk image")
	f.StringVar(&in.kernel, "kernel", "", "`URL or file` of the kernel")
	f.StringVar(&in.initrd, "initrd", "", "`URL or file` of the initrd")
	f.StringArrayVar(&in.sums, "sha256", nil,
		"SHA-256 `sum` of the file; disk=sum, kernel=sum, initrd=sum if there are several")
	f.StringVar(&in.image.Cmdline, "cmdline", "", "command line of the kernel")
	f.StringVar(&in.image.Arch, "arch", "amd64", "amd64 or arm64")
	f.StringVar(&in.format, "format", "", "raw, qcow2 or tar (default: derived from the file)")
	f.StringVar(&in.compression, "compression", "", "none, gzip or zstd (default: derived from the file)")
	f.StringVar(&in.image.Description, "description", "", "description of the image")
	f.BoolVar(&in.replace, "replace", false, "replace another image of this name")
	f.BoolVar(&in.dryRun, "dry-run", false, "upload the files and check the image, but do not store it")
	app.OneOf(cmd, "arch", "amd64", "arm64")
	app.OneOf(cmd, "format", "raw", "qcow2", "tar")
	app.OneOf(cmd, "compression", "none", "gzip", "zstd")
	return cmd
}

// imageApply stores images whose files are URLs, or were uploaded before.
func imageApply(a *app.App) *cobra.Command {
	var o output.Flags
	var in output.Inputs
	var replace, dryRun bool
	cmd := &cobra.Command{
		Use: "apply -f FILE", DisableFlagsInUseLine: true, Args: app.Exactly(),
		Short: "Store images from a file",
		Long: `Store images from a file, YAML or JSON with the names of the API: one image, several separated by ---, or a list. Its files are
URLs with their SHA-256, or were uploaded before with 'image add'.`,
		Example: "  holdfast image apply -f images.yaml\n  holdfast image get debian-13 -o yaml | holdfast --context " +
			"eu image apply -f -",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !in.Given() {
				return app.Usagef("%s: -f FILE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
			}
			images, err := output.ReadDocuments(a, &in, kinds.Image())
			if err != nil {
				return err
			}
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				return output.StoreEach(a, &o, kinds.Image(), images, "apply images",
					func(i *holdfastv1.Image) (*holdfastv1.Image, error) {
						done, err := c.Images().AddImage(ctx,
							&holdfastv1.AddImageRequest{Image: i, Replace: replace, ValidateOnly: dryRun})
						return done, app.Failed(err, "apply image %s", cmp.Or(i.GetName(), "without name"))
					})
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(kinds.Image())...)
	in.Register(cmd.Flags(), "images")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace other images of these names")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check it on the server and store nothing")
	return cmd
}

// imageParts returns the names of the files of an image.
func imageParts() []string { return []string{"disk", "kernel", "initrd"} }

// sources returns the URL or file of each part; "" for none.
func (in *imageInput) sources() map[string]string {
	return map[string]string{"disk": in.disk, "kernel": in.kernel, "initrd": in.initrd}
}

func isURL(source string) bool { return strings.Contains(source, "://") }

// check parses the flags, so that no file is uploaded before an error in them.
func (in *imageInput) check() (err error) {
	if in.sha256, err = imageSums(in.sums, in.sources()); err != nil {
		return err
	}
	for _, part := range imageParts() {
		if isURL(in.sources()[part]) && in.sha256[part] == "" {
			return app.Usagef("--%s: a URL needs the SHA-256 of its contents: pass --sha256 %s=SUM", part, part)
		}
	}
	if in.disk == "" && (in.format != "" || in.compression != "") {
		return app.Usagef("--format and --compression apply to a disk: pass --disk")
	}
	in.image.Format = holdfastv1.Image_Format(holdfastv1.Image_Format_value[strings.ToUpper(in.format)])
	if in.format != "" && in.image.Format == 0 {
		return app.Usagef("--format: %q is not raw, qcow2 or tar", in.format)
	}
	in.image.Compression = holdfastv1.Image_Compression(
		holdfastv1.Image_Compression_value[strings.ToUpper(in.compression)])
	if in.compression != "" && in.image.Compression == 0 {
		return app.Usagef("--compression: %q is not none, gzip or zstd", in.compression)
	}
	return nil
}

// addFiles uploads the local files, and sets the files, format and compression of the image.
func (in *imageInput) addFiles(ctx context.Context, a *app.App, c *client.Client) error {
	if err := in.setFormat(); err != nil {
		return err
	}
	files := map[string]*holdfastv1.Image_File{}
	for _, part := range imageParts() {
		source := in.sources()[part]
		switch {
		case source == "":
		case isURL(source):
			files[part] = &holdfastv1.Image_File{Url: source, Sha256: in.sha256[part]}
		default:
			var err error
			if files[part], err = uploadFile(ctx, a, c, source, in.sha256[part]); err != nil {
				return fmt.Errorf("--%s: %w", part, err)
			}
		}
	}
	in.image.Disk, in.image.Kernel, in.image.Initrd = files["disk"], files["kernel"], files["initrd"]
	return nil
}

// setFormat sets format and compression of the disk where the user did not, and checks a local file
// before it is uploaded. The server checks the file of a URL.
func (in *imageInput) setFormat() error {
	if in.disk == "" {
		return nil
	}
	var head []byte
	if !isURL(in.disk) {
		var err error
		if head, err = headOf(in.disk); err != nil {
			return fmt.Errorf("--disk: %w", err)
		}
	}
	name, _, _ := strings.Cut(in.disk, "?")
	format, compression := guessImage(name, head)
	in.image.Format = cmp.Or(in.image.GetFormat(), format)
	in.image.Compression = cmp.Or(in.image.GetCompression(), compression)
	if len(head) == 0 || fsm.IsMedium(in.image.GetName()) {
		return nil
	}
	if err := imageformat.Check(in.image.GetFormat().String(), in.image.GetCompression().String(), head); err != nil {
		return app.Usagef("--disk: %s cannot be installed: %v", in.disk, err)
	}
	return nil
}

// openWhole opens a file that is read more than once.
func openWhole(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, app.Usagef(
			"%s is read twice and is not a regular file: write its contents into a regular file first", path)
	}
	return os.Open(path)
}

// headOf returns the first bytes of a file.
func headOf(path string) ([]byte, error) {
	f, err := openWhole(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	head, err := io.ReadAll(io.LimitReader(f, imageformat.HeadSize))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return head, nil
}

// imageSums parses --sha256: the sum of the only file, or one per file.
func imageSums(given []string, sources map[string]string) (map[string]string, error) {
	var parts []string
	for part, source := range sources {
		if source != "" {
			parts = append(parts, part)
		}
	}
	sums := map[string]string{}
	for _, s := range given {
		part, sum, named := strings.Cut(s, "=")
		if !named {
			if len(parts) != 1 {
				return nil, app.Usagef("--sha256: the image has several files (%d): name one, such as disk=SUM", len(parts))
			}
			part, sum = parts[0], s
		}
		if !slices.Contains(parts, part) {
			return nil, app.Usagef("--sha256: --%.40s is not set", part)
		}
		sums[part] = strings.ToLower(sum)
	}
	return sums, nil
}

// guessImage derives format and compression from a name and the first bytes; the bytes take
// precedence.
func guessImage(name string, head []byte) (holdfastv1.Image_Format, holdfastv1.Image_Compression) {
	name = strings.ToLower(name)
	compression := holdfastv1.Image_NONE
	for suffix, c := range map[string]holdfastv1.Image_Compression{".gz": holdfastv1.Image_GZIP,
		".zst": holdfastv1.Image_ZSTD, ".zstd": holdfastv1.Image_ZSTD} {
		if bare, ok := strings.CutSuffix(name, suffix); ok {
			name, compression = bare, c
			break
		}
	}
	if bare, ok := strings.CutSuffix(name, ".tgz"); ok {
		name, compression = bare+".tar", holdfastv1.Image_GZIP
	}
	format := holdfastv1.Image_RAW
	switch {
	case strings.HasSuffix(name, ".qcow2"), strings.HasSuffix(name, ".qcow"):
		format = holdfastv1.Image_QCOW2
	case strings.HasSuffix(name, ".tar"):
		format = holdfastv1.Image_TAR
	}
	switch found := imageformat.Detect(head); {
	case len(head) == 0:
	case found == imageformat.Gzip:
		compression = holdfastv1.Image_GZIP
	case found == imageformat.Zstd:
		compression = holdfastv1.Image_ZSTD
	case found == imageformat.QCOW2:
		format, compression = holdfastv1.Image_QCOW2, holdfastv1.Image_NONE
	case found == imageformat.TAR:
		format, compression = holdfastv1.Image_TAR, holdfastv1.Image_NONE
	default:
		compression = holdfastv1.Image_NONE
		if format == holdfastv1.Image_QCOW2 {
			format = holdfastv1.Image_RAW // it only has the name
		}
	}
	return format, compression
}

// uploadFile sends a local file to the cluster.
func uploadFile(
	ctx context.Context, a *app.App, c *client.Client, path, want string,
) (*holdfastv1.Image_File, error) {
	f, err := openWhole(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if want != "" && want != sum {
		return nil, app.Usagef("%s has the SHA-256 %s, want %s", path, sum, want)
	}
	if size == 0 {
		return nil, app.Usagef("%s is empty", path)
	}
	ctx, cancel := a.Patience(ctx, 0)
	defer cancel()
	began, said := time.Now(), time.Now()
	peers, err := c.UploadFile(ctx, client.Upload{SHA256: sum, Size: size, From: f, Progress: func(sent int64) {
		if time.Since(said) < 2*time.Second {
			return
		}
		said = time.Now()
		a.Note("uploading %s: %s of %s (%d %%)", path, cmp.Or(app.ByteSize(sent), "0 B"), app.ByteSize(size), sent*100/size)
	}})
	if err != nil {
		return nil, app.Failed(err, "upload %s", path)
	}
	a.Note("uploaded %s: %s in %.1f s; %s have it", path, app.ByteSize(size), time.Since(began).Seconds(),
		strings.Join(peers, ", "))
	return &holdfastv1.Image_File{Sha256: sum, SizeBytes: size}, nil
}
