//go:build unix

package main

import "time"

// testPlan is `make test`: what a developer waits for. Go's test cache answers for packages in
// which nothing has changed.
func (r *runner) testPlan(python *pythonTools) plan {
	goLane := []step{
		{name: "gofmt", run: r.gofmt, usual: time.Second},
		{name: "go vet", run: r.command("go", "vet", "./..."), usual: 150 * time.Second},
		{
			name: shortTestStep, run: r.shortTests, usual: 420 * time.Second,
			after: []string{"fetch MiniStack", "fetch aws CLI", "fetch moto"},
		},
	}
	toolLane := []step{
		{name: "fetch MiniStack", run: python.ministack.step, usual: 20 * time.Second},
		{name: "fetch aws CLI", run: python.aws.step, usual: 20 * time.Second},
		{name: "fetch moto", run: python.moto.step, usual: 20 * time.Second},
	}
	toolLane = append(toolLane, r.templateSteps(python)...)
	toolLane = append(toolLane, r.staticcheckStep())
	return plan{"test", [][]step{goLane, toolLane}}
}

// checkPlan is `make check`: what takes long, or depends on chance. Nothing in it comes from a
// cache of results, and one step runs at a time, as some tests measure.
func (r *runner) checkPlan(python *pythonTools, seeds int) plan {
	return plan{"check", [][]step{{
		{name: "build functions, linux/arm64", run: r.buildFunctions("arm64"), usual: 120 * time.Second},
		{name: "build functions, linux/amd64", run: r.buildFunctions("amd64"), usual: 120 * time.Second},
		{name: "fetch sam CLI", run: python.sam.step},
		{name: "sam build", run: r.samBuild(python.sam), usual: 20 * time.Second},
		{name: "sam local invoke", run: r.samLocalInvoke(python.sam), usual: time.Second},
		{name: "fetch MiniStack", run: python.ministack.step},
		{name: "fetch aws CLI", run: python.aws.step},
		{name: "fetch moto", run: python.moto.step},
		{name: "fetch clients", run: python.clients.step, usual: 30 * time.Second},
		{name: testStep, run: r.fullTests, usual: 600 * time.Second},
		{name: clientStep, run: r.clientTests, usual: 360 * time.Second},
		{name: releaseStep, run: r.releaseTests, usual: 90 * time.Second},
		{name: raceStep, run: r.raceTests, usual: 200 * time.Second},
		{name: mutateStep, run: r.mutate(), usual: 60 * time.Second},
		{name: simulateStep(seeds), run: r.simulate(seeds), usual: 360 * time.Second},
	}}}
}

// lintPlan is `make lint`: what runs no code of the project.
func (r *runner) lintPlan(python *pythonTools) plan {
	return plan{"lint", [][]step{
		{
			{name: "gofmt", run: r.gofmt, usual: time.Second},
			{name: "go vet", run: r.command("go", "vet", "./..."), usual: 150 * time.Second},
			r.staticcheckStep(),
		},
		r.templateSteps(python),
	}}
}

// staticcheckStep waits for go vet, which compiles what staticcheck needs compiled.
func (r *runner) staticcheckStep() step {
	return step{name: "staticcheck", run: r.staticcheck, usual: 140 * time.Second, after: []string{"go vet"}}
}

func (r *runner) templateSteps(python *pythonTools) []step {
	checkovArgs := []string{"--config-file", "tools/checkov.yaml"}
	return []step{
		{name: "fetch sam CLI", run: python.sam.step, usual: 30 * time.Second},
		{name: "sam validate --lint", run: r.samValidate(python.sam), usual: 5 * time.Second},
		{name: "cfn-lint", run: r.checkTemplates(python.cfnLint, nil, ""), usual: 10 * time.Second},
		{name: "checkov", run: r.checkTemplates(python.checkov, checkovArgs, "-f"), usual: 40 * time.Second},
		{name: "shellcheck", run: r.checkScripts(python.shellcheck), usual: 5 * time.Second},
	}
}
