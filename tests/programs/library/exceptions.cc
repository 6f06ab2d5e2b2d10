// C++: exceptions through frames with destructors, rethrown, from a callback of C's qsort; RTTI, virtual calls, containers, streams.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct Noisy
{
    std::string name;
    ~Noisy() { std::cout << "gone: " << name << "\n"; }
};

struct Shape
{
    virtual double area() const = 0;
    virtual ~Shape() = default;
};
struct Square : Shape
{
    double side;
    explicit Square(double s) : side(s) {}
    double area() const override { return side * side; }
};
struct Circle : Shape
{
    double radius;
    explicit Circle(double r) : radius(r) {}
    double area() const override { return 3 * radius * radius; }
};

static int deep(int depth)
{
    Noisy noisy{"depth " + std::to_string(depth)};
    if (depth == 0)
    {
        throw std::out_of_range("bottom");
    }
    return deep(depth - 1) + 1;
}

int main()
{
    for (int i = 0; i < 3; i++)
    {
        try
        {
            try
            {
                deep(i);
            }
            catch (const std::logic_error &error)
            {
                std::cout << "caught " << error.what() << "\n";
                throw std::runtime_error(std::string("again ") + error.what());
            }
        }
        catch (const std::exception &error)
        {
            std::cout << error.what() << "\n";
        }
    }
    int counter = 0;
    for (int i = 0; i < 500; i++)
    {
        try
        {
            if (i % 3 == 0)
                throw i;
            if (i % 3 == 1)
                throw std::to_string(i);
            counter++;
        }
        catch (int value)
        {
            counter += value;
        }
        catch (const std::string &text)
        {
            counter += static_cast<int>(text.size());
        }
    }
    std::cout << counter << "\n";
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.emplace_back(new Square(2));
    shapes.emplace_back(new Circle(1.5));
    double total = 0;
    for (auto &shape : shapes)
    {
        total += shape->area() + (dynamic_cast<Square *>(shape.get()) ? 100 : 0);
    }
    std::map<std::string, std::vector<int>> index;
    for (int i = 0; i < 1000; i++)
    {
        index[std::to_string(i * 7919 % 100)].push_back(i);
    }
    std::ostringstream out;
    for (auto &[key, values] : index)
    {
        out << key << ':' << values.size() << ' ';
    }
    std::cout << total << " " << std::hash<std::string>()(out.str()) << "\n";
    std::function<int(int)> fib = [&](int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); };
    std::cout << fib(15) << "\n";
    auto trap = [](const void *, const void *) -> int { throw 42; };
    int pair[2] = {2, 1};
    try
    {
        qsort(pair, 2, sizeof *pair, trap);
    }
    catch (int value)
    {
        std::cout << "through C: " << value << "\n";
    }
}
