# Two commands matter: `make run` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
# A machine that builds once has no use for what makes the next build quicker, and it is most of what fills a disk.
ifdef CI
export CARGO_INCREMENTAL := 0
endif

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Start the product with a demo and show its page (Ctrl-C ends it; ARGS=--exit ends with the demo)
	./scripts/tools run
	cd ui && npm run --silent build
	$(CARGO) build -p kubeopencode
	"$${CARGO_TARGET_DIR:-target}/debug/kubeopencode" up --demo $(ARGS)

.PHONY: test
test: tools ## Run every check and every test
	./scripts/test

.PHONY: quick
quick: ## Only what needs no cluster: format, lints, unit tests, generated files
	./scripts/test quick

.PHONY: generate
generate: ## Rewrite the files that are made from code (CRDs, reference pages, the page's types)
	$(CARGO) run --quiet -p xtask -- generate
	cd ui && npm run --silent generate

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all
	cd ui && npm run --silent format

.PHONY: tools
tools: ## Install what the other commands need
	./scripts/tools

.PHONY: cluster
cluster: tools ## Give me a real Kubernetes control plane (NODE=1 adds a node)
	$(CARGO) run --quiet -p testenv -- up $(if $(NODE),--node)

.PHONY: bench
bench: tools ## Measure the product, as ratios within one run
	$(CARGO) build --quiet --release -p bench
	$(CARGO) rustc --quiet --release -p kubeopencode --bin kubeopencode -- -C target-feature=+crt-static # as in the images
	"$${CARGO_TARGET_DIR:-target}/release/bench" all

.PHONY: clean
clean: ## Remove what was built here (downloaded tools stay in the cache)
	$(CARGO) clean
