# Everything that people and CI run. Only Go must be installed: the tools of the checks are fetched into .cache/.

SEEDS ?= 300
SEED ?=
# As Lambda gets the functions: without what they do not use, stripped. That is Lambda's old RPC mode, and HTTP/2: their calls go
# to AWS and to Lambda's runtime API, which speak HTTP/1.1, and it is 0.37 MB of each function.
LAMBDA_GOFLAGS := -tags=lambda.norpc,nethttpomithttp2 -trimpath -ldflags=-s

.DEFAULT_GOAL := help
.PHONY: help run local invoke deploy destroy test check lint bench simulate soak build dist clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## start Berth in one process, with simulated instances, and print its endpoint
	@go build -o .cache/bin/berth ./cmd/berth && exec .cache/bin/berth up $(FLAGS)

local: ## deploy template.yaml to an emulator of AWS on this machine, with simulated instances; needs Python, no Docker
	@go build -o .cache/bin/run ./tests/run && .cache/bin/run -fetch ministack
	@go build -o .cache/bin/local ./tests/local && exec .cache/bin/local

invoke: ## have a function handle an event with its state, without Docker: EVENT=events/task-stopped.json
	@go build -o .cache/bin/run ./tests/run && .cache/bin/run -fetch ministack
	@go build -o .cache/bin/invoke ./tests/invoke && exec .cache/bin/invoke $(if $(FUNCTION),-function "$(FUNCTION)") -event "$(EVENT)"

deploy: ## build for AWS and deploy with the sam CLI; it asks six questions the first time
	@go build -o .cache/bin/ask ./infra/ask && .cache/bin/ask samconfig.local.toml
	CGO_ENABLED=0 GOFLAGS="$(LAMBDA_GOFLAGS)" sam build --config-file "$(CURDIR)/samconfig.local.toml"
	sam deploy --config-file "$(CURDIR)/samconfig.local.toml"

destroy: ## remove what make deploy made; the table stays, by its DeletionPolicy
	@if [ -f samconfig.local.toml ]; then sam delete --config-file "$(CURDIR)/samconfig.local.toml"; else sam delete; fi

test: ## run the checks that a developer waits for: a few minutes, less where nothing has changed
	@go build -o .cache/bin/run ./tests/run && .cache/bin/run

check: ## run the long and random checks: SEEDS=300 simulated clusters, kills, faults on an emulator of AWS, races
	@go build -o .cache/bin/run ./tests/run && .cache/bin/run -check -seeds $(SEEDS)

lint: ## run the checks that run no code: gofmt, go vet, staticcheck, sam validate, cfn-lint, checkov, shellcheck
	@go build -o .cache/bin/run ./tests/run && .cache/bin/run -lint

bench: ## run the benchmarks, placement first, beside its peers: about half an hour; QUICK=1 only Berth's placement, in seconds
	@go build -o .cache/bin/compare ./tests/bench/compare && .cache/bin/compare $(if $(QUICK),-quick) $(FLAGS)
ifndef QUICK
	go test -count=1 -v -run Burst -bench . -skip 'Cloud|ColdStart|Reads' -benchtime 200x ./tests/bench
	go test -count=1 -run '^$$' -bench Reads -benchtime 1x ./tests/bench
	@go build -o .cache/bin/run ./tests/run && .cache/bin/run -fetch ministack
	go test -count=1 -run '^$$' -bench 'CloudStopToStart|ColdStart' -benchtime 50x ./tests/bench
	go test -count=1 -run '^$$' -bench CloudTaskCost -benchtime 1x ./tests/bench
	go test -run '^$$' -bench . -benchmem ./shared/...
endif

simulate: ## run whole clusters under faults: SEEDS=300 of them, from FROM=0 on, or the one SEED=N, in full; ONLY=TestScaling one kind
	@SEEDS=$(SEEDS) FROM=$(FROM) SEED=$(SEED) ONLY=$(ONLY) go test -count=1 -timeout $(if $(ONLY),0,60m) $(if $(ONLY),-run '^$(ONLY)$$') -v ./tests/simulation

soak: ## keep berth up at 5,000 machines and 50,000 tasks under load for HOURS=1 or MINUTES=: memory flat, reads fast, no errors
	@SOAK_MINUTES=$(if $(MINUTES),$(MINUTES),$$(awk 'BEGIN { print int(60 * $(or $(HOURS),1)) }')) go test -count=1 -timeout 0 -v -run TestSoak ./tests/soak

build: ## build bin/berth, and each function as Lambda runs it into bin/functions/
	go build -trimpath -o bin/berth ./cmd/berth
	@for main in functions/*/main.go; do \
		name=$$(basename $$(dirname $$main)); echo "building $$name"; \
		GOOS=linux GOARCH=arm64 CGO_ENABLED=0 GOFLAGS="$(LAMBDA_GOFLAGS)" go build \
			-o bin/functions/$$name/bootstrap ./functions/$$name || exit 1; \
	done

dist: ## build a release into dist/: archives for each platform, checksums, a list of modules, a container image as a file
	@go build -C tools -o ../.cache/bin/dist ./dist && .cache/bin/dist $(FLAGS)

clean: ## remove what the other targets made
	rm -rf .cache bin dist .aws-sam
