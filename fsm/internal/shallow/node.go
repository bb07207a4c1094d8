package shallow

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// Node returns a copy of a machine's node. Its own fields may be changed; its tags are shared.
func Node(n *holdfastv1.NodeRecord) *holdfastv1.NodeRecord {
	return &holdfastv1.NodeRecord{
		Hostname:         n.Hostname,
		IpAddress:        n.IpAddress,
		WorkflowId:       n.WorkflowId,
		Vendor:           n.Vendor,
		Model:            n.Model,
		SerialNumber:     n.SerialNumber,
		SystemUuid:       n.SystemUuid,
		Arch:             n.Arch,
		BootMode:         n.BootMode,
		GroupId:          n.GroupId,
		Tags:             n.Tags,
		InstallAttempts:  n.InstallAttempts,
		LastInstallError: n.LastInstallError,
		StateChangedAt:   n.StateChangedAt,
		LastSeenAt:       n.LastSeenAt,
		InstallProgress:  n.InstallProgress,
		InstallStatus:    n.InstallStatus,
		InstallStatusAt:  n.InstallStatusAt,
		InstallRunId:     n.InstallRunId,
		ApprovedAt:       n.ApprovedAt,
	}
}

// Spec returns a copy of a machine's spec. Its own fields may be changed; its lists are shared.
func Spec(s *holdfastv1.MachineSpec) *holdfastv1.MachineSpec {
	return &holdfastv1.MachineSpec{
		SshEndpoint:       s.SshEndpoint,
		BmcEndpoint:       s.BmcEndpoint,
		TargetClusterRef:  s.TargetClusterRef,
		MacAddresses:      s.MacAddresses,
		Provider:          s.Provider,
		Location:          s.Location,
		Rack:              s.Rack,
		Serial:            s.Serial,
		CustomerId:        s.CustomerId,
		Pool:              s.Pool,
		BmcCredentialsRef: s.BmcCredentialsRef,
		SshCredentialsRef: s.SshCredentialsRef,
		SshHostKeys:       s.SshHostKeys,
	}
}
