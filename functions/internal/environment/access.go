package environment

import "berth/shared/wire/access"

// emulatorCaller is who calls on an emulator of AWS, which verifies signatures and does not say
// whose.
const emulatorCaller = "emulator"

// AccessPolicy returns who may call what, by WRITER_ARNS and NODE_GROUP_MANAGER_ARNS, and who
// counts as the caller of requests that IAM has not authorized: nobody, unless REQUIRE_IAM is
// false.
func (e *Environment) AccessPolicy() (p *access.Policy, unverifiedCaller string) {
	p = &access.Policy{
		Writers: e.ListVariable("WRITER_ARNS"), NodeGroupManagers: e.ListVariable("NODE_GROUP_MANAGER_ARNS"),
	}
	if e.BoolVariable("REQUIRE_IAM") {
		return p, ""
	}
	p.Writers = append(p.Writers, emulatorCaller)
	p.NodeGroupManagers = append(p.NodeGroupManagers, emulatorCaller)
	return p, emulatorCaller
}
