// Calls whose target only the data knows: virtual functions, multiple inheritance, member pointers,
// std::function, type switches, jump tables of many sizes.
#include "check.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace {

struct Shape {
    virtual ~Shape() = default;
    virtual uint64_t area() const = 0;
    virtual Shape *next(uint64_t random) const;
};

struct Named {
    virtual ~Named() = default;
    virtual std::string name() const { return "none"; }
    uint64_t tag = 3;
};

struct Square final : Shape {
    explicit Square(uint64_t side) : side(side) {}
    uint64_t area() const override { return side * side; }
    uint64_t side;
};

struct Circle : Shape, Named {
    explicit Circle(uint64_t radius) : radius(radius) {}
    uint64_t area() const override { return radius * radius * 3 + tag; }
    std::string name() const override { return "circle " + std::to_string(radius); }
    uint64_t radius;
};

struct Ring : virtual Circle {
    explicit Ring(uint64_t radius) : Circle(radius) {}
    uint64_t area() const override { return Circle::area() - 1; }
    std::string name() const override { return "ring"; }
};

Shape *Shape::next(uint64_t random) const {
    uint64_t size = area() % 1000 + random % 7;
    switch (random % 3) {
    case 0: return new Square(size);
    case 1: return new Circle(size);
    default: return new Ring(size);
    }
}

uint64_t shapes(unsigned rounds) {
    std::unique_ptr<Shape> shape(new Square(1));
    uint64_t digest = 0;
    for (unsigned i = 0; i < rounds; i++) {
        digest = mix(digest, shape->area());
        if (auto *named = dynamic_cast<Named *>(shape.get()))
            digest = mix(digest, named->name().size() + named->tag);
        shape.reset(shape->next(digest));
    }
    return digest;
}

struct Counter {
    uint64_t value = 0;
    void add(uint64_t n) { value += n; }
    void multiply(uint64_t n) { value *= n | 1; }
    virtual void scramble(uint64_t n) { value = mix(value, n); }
    virtual ~Counter() = default;
};

uint64_t members(unsigned rounds) {
    void (Counter::*const functions[])(uint64_t) = {&Counter::add, &Counter::multiply, &Counter::scramble};
    Counter counter;
    std::vector<std::function<void(uint64_t)>> closures;
    for (uint64_t factor = 1; factor < 5; factor++)
        closures.emplace_back([&counter, factor](uint64_t n) { counter.value ^= n * factor; });
    for (unsigned i = 0; i < rounds; i++) {
        (counter.*functions[i % 3])(i);
        closures[counter.value % 4](i);
    }
    return counter.value;
}

uint64_t variants(unsigned rounds) {
    std::variant<int, double, std::string> value = 1;
    std::map<std::string, uint64_t> counts;
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t random = busy(i, 5);
        switch (random % 3) {
        case 0: value = (int)(random % 100); break;
        case 1: value = (double)(random % 50) / 2; break;
        default: value = std::string(random % 20, 'x'); break;
        }
        std::visit([&](const auto &v) {
            if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>)
                counts[v]++;
            else
                counts["number"] += (uint64_t)v;
        }, value);
    }
    uint64_t digest = 0;
    for (const auto &[name, count] : counts)
        digest = mix(mix(digest, name.size()), count);
    return digest;
}

} // namespace

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    report("shapes", shapes(100000 * scale));
    report("members", members(1000000 * scale));
    report("variants", variants(80000 * scale));
}
