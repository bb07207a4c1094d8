package marks

import "golang.org/x/sys/unix"

// born returns when a file was created, in nanoseconds since 1970, or 0 if it is unknown.
func born(name string) int64 {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}
