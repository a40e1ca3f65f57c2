package environment

import "berth/shared/wire/access"

// emulatorCaller stands for every caller on an emulator of AWS that does not say who has signed a
// request.
const emulatorCaller = "emulator"

// AccessPolicy returns who may call what, by WRITER_ARNS and NODE_GROUP_MANAGER_ARNS, and the
// principal of requests that IAM has not authorized. That is empty, so that they are refused,
// unless REQUIRE_IAM is false. The variable must be set.
func (e *Environment) AccessPolicy() (p *access.Policy, unverifiedCaller string) {
	p = &access.Policy{
		Writers: e.ListVariable("WRITER_ARNS"), NodeGroupManagers: e.ListVariable("NODE_GROUP_MANAGER_ARNS"),
	}
	if e.RequiredVariable("REQUIRE_IAM") == "" || e.BoolVariable("REQUIRE_IAM") {
		return p, ""
	}
	p.Writers = append(p.Writers, emulatorCaller)
	p.NodeGroupManagers = append(p.NodeGroupManagers, emulatorCaller)
	return p, emulatorCaller
}
