# Everything that people and CI run. Only Go is needed; what else the checks want is fetched into .cache/.

SEEDS ?= 200
SEED ?=

.DEFAULT_GOAL := help
.PHONY: help run test lint bench simulate build clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## start Berth in one process, with a simulated fleet, and print its endpoint
	@go build -o .cache/bin/berth ./cmd/berth && exec .cache/bin/berth up

test: ## run every check, fetching what it needs; SEEDS=200 is how many simulations
	@go build -o .cache/bin/run ./tests/run && .cache/bin/run -seeds $(SEEDS)

lint: ## run the checks that run no code: gofmt, go vet, staticcheck, sam validate
	@go build -o .cache/bin/run ./tests/run && .cache/bin/run -lint

bench: ## run the benchmarks
	go test -count=1 -v -run Burst -bench . -benchtime 200x ./tests/bench
	go test -run '^$$' -bench . -benchmem ./shared/...

simulate: ## run whole clusters under faults: SEEDS=200 of them, or the one SEED=N, in full
	@SEEDS=$(SEEDS) SEED=$(SEED) go test -count=1 -timeout 60m -v ./tests/simulation

build: ## build bin/berth, and each function as Lambda runs it into bin/functions/
	go build -trimpath -o bin/berth ./cmd/berth
	@for main in functions/*/main.go; do \
		name=$$(basename $$(dirname $$main)); echo "building $$name"; \
		GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -trimpath -tags lambda.norpc -ldflags '-s -w' \
			-o bin/functions/$$name/bootstrap ./functions/$$name || exit 1; \
	done

clean: ## remove what the other targets made
	rm -rf .cache bin .aws-sam
